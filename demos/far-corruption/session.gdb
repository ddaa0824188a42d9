# It dies in a library function, far from any mistake.
rr-start
frame function report
print table.owner
# That is no pointer to anything. Who made it?
rr-back -w table.owner
backtrace
print to
print &table.owner
# The end of a name that is too long. All that ever happened to the pointer:
rr-goto end
rr-history table.owner
