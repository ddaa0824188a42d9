# The server dies.
rr-start
frame function serve
# On a harmless request: it asks for nothing, and needs no room.
print *request
print length
# Whose length is that?
rr-back -w length
backtrace
up
print *request
print served
# All the lengths that there were:
rr-goto end
rr-history length
