#include "tests/cuda_on_host/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Stores the registers that a function keeps and the stack in *save, and takes up those of *load.
// swapcontext() does the same with a system call each way, which would be most of a kernel's time.
extern "C" void trainyard_switch_stack(void** save, void* load);
asm(R"(
.text
.p2align 4
.globl trainyard_switch_stack
.hidden trainyard_switch_stack
.type trainyard_switch_stack,@function
trainyard_switch_stack:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size trainyard_switch_stack,.-trainyard_switch_stack
)");
#endif

namespace trainyard::cuda_on_host {
namespace {

// Sanitizers make frames several times as large.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStack = std::size_t{512} << 10;
#else
constexpr std::size_t kStack = std::size_t{128} << 10;
#endif
constexpr std::size_t kGuard = 4096;

thread_local Fiber* entering = nullptr;

}  // namespace

struct Fiber::Context {
  char* memory = nullptr;
#if defined(__x86_64__)
  void* inside = nullptr;
  void* outside = nullptr;
  void into() { trainyard_switch_stack(&outside, inside); }
  void out() { trainyard_switch_stack(&inside, outside); }
#else
  ucontext_t inside, outside;
  void into() { swapcontext(&outside, &inside); }
  void out() { swapcontext(&inside, &outside); }
#endif
  // What AddressSanitizer has to be told of a stack that changes. The thread sanitizer is told
  // nothing: it takes fibers for their thread, which they never leave (and clocks of their own
  // would be most of a kernel's time); its books of calls are kept out by flags, see
  // CMakeLists.txt.
  void* fake_inside = nullptr;
  void* fake_outside = nullptr;
  const void* outer_stack = nullptr;
  std::size_t outer_size = 0;
};

Fiber::Fiber() : context_(new Context) {
  void* const memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, kGuard, PROT_NONE);
  context_->memory = static_cast<char*>(memory);
#if defined(__x86_64__)
  auto* top = reinterpret_cast<std::uintptr_t*>(context_->memory + kStack);
  *--top = 0;  // the return address, 8 bytes off a multiple of 16: it ends backtraces
  *--top = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
  for (int saved = 0; saved < 6; ++saved) *--top = 0;
  context_->inside = top;
#else
  getcontext(&context_->inside);
  context_->inside.uc_stack.ss_sp = context_->memory;
  context_->inside.uc_stack.ss_size = kStack;
  context_->inside.uc_link = nullptr;
  makecontext(&context_->inside, &Fiber::enter, 0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(context_->memory, kStack);
#endif
  munmap(context_->memory, kStack);
  delete context_;
}

void Fiber::resume() {
  entering = this;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&context_->fake_outside, context_->memory, kStack);
#endif
  context_->into();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(context_->fake_outside, nullptr, nullptr);
#endif
}

void Fiber::yield() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&context_->fake_inside, context_->outer_stack,
                                 context_->outer_size);
#endif
  context_->out();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(context_->fake_inside, &context_->outer_stack,
                                  &context_->outer_size);
#endif
}

void Fiber::enter() { entering->loop(); }

void Fiber::loop() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &context_->outer_stack, &context_->outer_size);
#endif
  for (;;) {
    (*function_)();
    yield();
  }
}

}  // namespace trainyard::cuda_on_host
