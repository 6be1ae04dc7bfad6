// A memory quota: how many bytes may be kept for one peer in total. Code that keeps bytes must take them from
// the Budget first. The bytes return to the Budget when the Share is destroyed. Any thread may call these
// classes.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace rdmc::sockets {

class Budget {
 public:
  explicit Budget(std::size_t bytes) : left_(bytes) {}

  bool take(std::size_t bytes) {
    std::size_t left = left_.load();
    while (left >= bytes)
      if (left_.compare_exchange_weak(left, left - bytes)) return true;
    return false;
  }
  void give_back(std::size_t bytes) { left_ += bytes; }
  std::size_t left() const { return left_; }

 private:
  std::atomic<std::size_t> left_;
};

/// The bytes that one owner has taken from a budget.
class Share {
 public:
  Share() = default;
  ~Share() { give_back(); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  /// Takes `bytes` more bytes from `budget`. A null `budget` means no limit. Until give_back(), each call
  /// must pass the same budget. Returns false, without any effect, if the budget has too few bytes left.
  bool grow(const std::shared_ptr<Budget>& budget, std::size_t bytes) {
    if (budget == nullptr) return true;
    if (!budget->take(bytes)) return false;
    budget_ = budget;
    bytes_ += bytes;
    return true;
  }
  void give_back() {
    if (budget_) std::exchange(budget_, nullptr)->give_back(std::exchange(bytes_, 0));
  }

 private:
  std::shared_ptr<Budget> budget_;
  std::size_t bytes_ = 0;
};

}  // namespace rdmc::sockets
