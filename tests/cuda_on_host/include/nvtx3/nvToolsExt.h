#pragma once
// Named ranges of the calling thread.

int nvtxRangePushA(const char* name);
int nvtxRangePop();
