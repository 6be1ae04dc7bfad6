// Replaces the atomic variables and the futex calls of the product in the programs of the model checks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "dataplane/base/types.hpp"
#include "tests/model/machine.hpp"

namespace rdmc {

/// An atomic variable of a model::Machine. It has the size of its value, as std::atomic does.
template <typename T>
class Atomic {
 public:
  static constexpr bool is_always_lock_free = true;

  constexpr Atomic(T value = T{}) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const {
    T value;
    model::Machine::load(&value_, &value, sizeof value);
    return value;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    model::Machine::store(&value_, &value, sizeof value, order == std::memory_order_seq_cst);
  }
  T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
    return change([&](T) { return value; });
  }
  T fetch_add(T more, std::memory_order = std::memory_order_seq_cst) {
    return change([&](T old) { return static_cast<T>(old + more); });
  }
  bool compare_exchange_strong(T& expected, T value) {
    const T old = change([&](T now) { return now == expected ? value : now; });
    const bool is_exchanged = old == expected;
    expected = old;
    return is_exchanged;
  }
  T operator=(T value) {
    store(value);
    return value;
  }
  operator T() const { return load(); }

  void wait(T old) const {
    while (load() == old) model::Machine::wait(&value_, &old, sizeof old);
  }
  void notify_all() { model::Machine::wake(&value_, SIZE_MAX); }

 private:
  template <typename Change>
  T change(Change change) {
    T old{};
    model::Machine::modify([&] {
      old = value_;
      value_ = change(old);
    });
    return old;
  }

  T value_;
};

inline void full_fence() {
  model::Machine::fence();
}

}  // namespace rdmc
