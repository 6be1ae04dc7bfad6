// A ViewStore for tests. Each call sends one request and waits for the answer.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/view/view_store.hpp"

namespace rdmc::store::testing {

inline constexpr std::chrono::seconds kPatience{60};

/// Returns a view with this epoch from this proposer. The views of different proposers differ.
inline view::View view_of(std::uint64_t epoch, std::uint64_t proposer) {
  return {.epoch = Epoch{epoch},
          .members = {{.id = view::MemberId{proposer},
                       .name = "proposer",
                       .address = Address::ipv4(10, 0, 0, 1, 7700),
                       .fabrics = {"udp"}}}};
}

class StoreClient {
 public:
  /// `make` must create the store on the client's own loop.
  explicit StoreClient(const std::function<std::unique_ptr<view::ViewStore>(control::ControlLoop&)>& make)
      : loop_(control::ControlLoop::create().value()), store_(make(*loop_)) {}

  Result<view::View> read(const std::string& group) {
    return answer<view::View>([&](auto done) { store_->read(group, std::move(done)); });
  }
  Result<view::SwapResult> swap(const std::string& group, const view::View& next) {
    return answer<view::SwapResult>(
        [&](auto done) { store_->compare_and_swap(group, next, std::move(done)); });
  }
  Result<std::vector<view::GroupView>> list() {
    return answer<std::vector<view::GroupView>>([&](auto done) { store_->list(std::move(done)); });
  }
  void watch(const std::string& group, view::ViewStore::Hint hint) {
    loop_->call([&] { store_->watch(group, std::move(hint)); });
  }

  /// Repeats the request until the store answers or kPatience has passed. On a busy machine, the answer to a
  /// single request may be too late.
  template <typename Ask>
  static auto until_answered(Ask ask) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      auto answer = ask();
      if (answer || std::chrono::steady_clock::now() > limit) return answer;
    }
  }
  bool wait_until_up() {
    return until_answered([this] { return read("nobody"); }).has_value();
  }
  /// Returns true if the store has answered the swap, whatever the answer is.
  bool swaps(const std::string& group, const view::View& next) {
    return until_answered([&] { return swap(group, next); }).has_value();
  }

  /// Replaces the current view of `group` by the next view. Sends as many requests as this takes. Calls
  /// `seen` with every view that the store reports. Returns nullopt if kPatience has passed.
  std::optional<view::View> advance(const std::string& group, std::uint64_t proposer,
                                    const std::function<void(const view::View&)>& seen) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < limit) {
      const auto now = read(group);
      if (!now) continue;
      if (value_of(now->epoch) > 0) seen(*now);
      const view::View next = view_of(value_of(now->epoch) + 1, proposer);
      const auto result = swap(group, next);
      if (!result) continue;
      seen(result->current);
      if (result->swapped) return next;
    }
    return std::nullopt;
  }

 private:
  template <typename T, typename Ask>
  Result<T> answer(Ask ask) {
    const auto promise = std::make_shared<std::promise<Result<T>>>();
    auto future = promise->get_future();
    loop_->call([&] { ask([promise](Result<T> result) { promise->set_value(std::move(result)); }); });
    if (future.wait_for(kPatience) != std::future_status::ready)
      return fail(Errc::timed_out, "no answer: the store broke its promise");
    return future.get();
  }

  std::unique_ptr<control::ControlLoop> loop_;
  std::unique_ptr<view::ViewStore> store_;
};

}  // namespace rdmc::store::testing
