# Run the program, recorded. It aborts in main, long after the mistake.
rr-start
frame function main
print balance
# Who took it below zero? Watch the balance and run backwards.
watch balance
reverse-continue
backtrace
rr-when
# Cashier and line are known; but the check was made. Who came between it and the withdrawal?
reverse-continue
backtrace
rr-when
