// A CUDA driver of a machine without GPUs that all the same takes what cuDNN compiles, so that its
// engines can be asked what they would do on a GPU that is not here. Other calls find no device.
extern "C" {

int no_device() { return 100; }  // CUDA_ERROR_NO_DEVICE

int cuLibraryLoadData(void** library, ...) {
  static int taken;
  *library = &taken;
  return 0;
}

int cuLibraryGetKernel(void** kernel, ...) {
  static int taken;
  *kernel = &taken;
  return 0;
}

int cuLibraryUnload(void*) { return 0; }

int cuGetErrorString(int, const char** text) {
  *text = "no GPU";
  return 0;
}
}
