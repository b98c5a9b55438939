// The same program, compiled as C++: the headers are both.
#include "client.c"
