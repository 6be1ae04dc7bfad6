// A function with a stack of its own, in the thread of its caller: ucontext(3). The address sanitizer is told
// of each switch to another stack.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace rdmc::model {

class Fiber {
 public:
  /// The code that has entered a fiber, and to which the fiber returns.
  struct Caller {
    ucontext_t context{};
    const void* stack = nullptr;
    std::size_t bytes = 0;
  };

  /// `body` must never return.
  explicit Fiber(std::function<void()> body) : stack_(kStackBytes), body_(std::move(body)) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.data();
    context_.uc_stack.ss_size = stack_.size();
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::begin), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the fiber until it, or a fiber to which it has switched, returns to the caller.
  void enter(Caller& caller) {
    caller_ = &caller;
    jump(caller.context, context_, stack_.data(), stack_.size());
  }
  void switch_to(Fiber& other) {
    other.caller_ = caller_;
    jump(context_, other.context_, other.stack_.data(), other.stack_.size());
  }
  void return_to(Caller& caller) { jump(context_, caller.context, caller.stack, caller.bytes); }

 private:
  static constexpr std::size_t kStackBytes = 256 * 1024;

  static void begin(unsigned high, unsigned low) {
    auto* const self = reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low);
    self->arrived(nullptr);
    self->body_();
  }
  void jump(ucontext_t& from, const ucontext_t& to, [[maybe_unused]] const void* stack,
            [[maybe_unused]] std::size_t bytes) {
    void* fake_stack = nullptr;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fake_stack, stack, bytes);
#endif
    swapcontext(&from, &to);
    arrived(fake_stack);
  }
  /// Called on the new stack after each switch.
  void arrived([[maybe_unused]] void* fake_stack) {
#ifdef __SANITIZE_ADDRESS__
    const void* stack = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake_stack, &stack, &bytes);
    if (caller_->stack == nullptr) {
      caller_->stack = stack;
      caller_->bytes = bytes;
    }
#endif
  }

  std::vector<std::byte> stack_;
  std::function<void()> body_;
  ucontext_t context_{};
  Caller* caller_ = nullptr;
};

}  // namespace rdmc::model
