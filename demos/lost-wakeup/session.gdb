rr-start --order random --seed 1
frame function main
print jobs
# There is work, and the worker sleeps. When did that work come?
rr-back -w jobs
rr-when
# Where was the worker at that moment?
thread apply all -q backtrace 3
# It had looked already. What did it see?
rr-back -b is_idle
finish
# There was no work then; and between its look and its sleep the lock was free.
