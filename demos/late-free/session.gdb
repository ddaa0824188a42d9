# One thread at a time, in an order that the seed decides: this run can be had again at any time.
rr-start --order random --seed 1
frame function server
print *current
# Who wrote that line into this session?
rr-back -w current->line[0]
frame function write_log
print number
print session
# The logger writes into its session, at the address of another. Who gave that session away?
rr-back -b free if $rdi == (long)current
frame function server
print *current
