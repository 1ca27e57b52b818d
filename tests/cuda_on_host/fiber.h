#pragma once
#include <cstddef>
#include <functional>

namespace trainyard::cuda_on_host {

// A function with a stack of its own, which may stop in its middle. The thread that resumes a fiber
// goes on when the fiber yields or its function ends.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Gives the fiber, whose last function has ended, a new one. It must not throw.
  void start(const std::function<void()>& function) { function_ = &function; }
  void resume();
  // Called on the fiber.
  void yield();

 private:
  static void enter();
  void loop();

  struct Context;
  Context* context_;
  const std::function<void()>* function_ = nullptr;
};

}  // namespace trainyard::cuda_on_host
