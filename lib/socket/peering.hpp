// How two processes come to share a trunk: over a control channel, on which both have proved the cluster key,
// they tell each other which process they are, and unless the one that dialled has a trunk to it already,
// what the link needs. The channel then stays: its end is how a process learns that the other has died. Any
// holder of the key may say that it is any process; so who dialled gives each trunk a secret, and shares a
// trunk only with who shows it. All on the loop's thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "controlplane/connect/channel.hpp"
#include "lib/socket/stack.hpp"

namespace rdmc::sockets {

class Peering final : public std::enable_shared_from_this<Peering> {
 public:
  /// `dialled`: the address at which we looked for it; nothing: it came to us.
  static void begin(Stack& stack, control::Channel channel, std::optional<Address> dialled);

 private:
  Peering(Stack& stack, control::Channel channel, std::optional<Address> dialled)
      : stack_(stack), channel_(std::move(channel)), dialled_(dialled) {}

  /// What names a trunk to its two ends.
  using Secret = std::array<std::byte, 16>;
  /// Of one process that it has dialled, at any time.
  static constexpr int kMostTrunks = 4;

  enum class Message : std::uint8_t { hello = 1, offer = 2 };
  void say(Message kind, std::span<const std::byte> body);
  void on_message(std::span<const std::byte> message);
  void on_closed(const Error& cause);
  void ask();
  void answer();
  void on_hello(std::span<const std::byte> secrets);
  void on_offer(std::vector<std::byte> blob);
  void share(const std::shared_ptr<Mux>& mux);
  bool has_too_many() const;
  void make_trunk(std::vector<std::byte> their_blob);
  void on_trunk(const Result<fabric::ConnectionBlob>& ours);
  void set_ready();
  void finish(const Result<std::shared_ptr<Mux>>& mux);
  void give_up(const Error& cause);

  Stack& stack_;
  control::Channel channel_;
  std::optional<Address> dialled_;  // until it has been told how that ended
  std::optional<Incarnation> theirs_;
  Secret secret_{};  // of the trunk
  bool is_dialler_ = dialled_.has_value(), has_heard_offer_ = false, has_offered_ = false, is_ready_ = false;
  Carrier* carrier_ = nullptr;
  std::shared_ptr<Mux> mux_;
  std::shared_ptr<Trunk> trunk_;                     // made on the carrier's thread
  std::vector<std::shared_ptr<Peering>> followers_;  // at other addresses of the same process
  control::Timer patience_;                          // until it is ready
};

}  // namespace rdmc::sockets
