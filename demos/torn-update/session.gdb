rr-start
frame function main
print here + there
print sum
# The accounts are right, the sum is not. Who made it?
rr-back -w sum
backtrace
print here + there
# The handler, called in the middle of move: between its two halves.
frame function move
list
