# The order is drawn from a seed, one thread at a time: the deadlock is there in every run.
rr-start --order random --seed 1
# Who waits where?
thread apply all -q backtrace -frame-arguments all 4
print left.lock.__data.__owner
print right.lock.__data.__owner
# Who took the left lock last, and on its way to what?
rr-back -w left.lock.__data.__owner
backtrace 3
# And the right one?
rr-goto end
rr-back -w right.lock.__data.__owner
backtrace 3
