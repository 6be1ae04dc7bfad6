// A peering makes the one trunk that the sockets of two processes share. The process that needs the trunk
// first opens a channel to the service of the other process's sockets. With the request it sends the
// connection blob of its link, and the answer has the peer's blob. The channel then stays open and carries
// nothing. When it ends, this shows that the other process has died. If both processes open a channel at the
// same time, the channel of the process that dialled the connection is used. Two processes have one
// connection (controlplane/peer), and a connection has at most one trunk. Everything runs on the control
// loop.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "controlplane/connect/channel.hpp"
#include "controlplane/peer/peers.hpp"
#include "lib/socket/stack.hpp"

namespace rdmc::sockets {

/// True if a peer that is connected from address `peer` to the local address `local` is a process of this
/// host. Does no I/O.
bool is_on_this_host(const Address& local, const Address& peer);

class Peering final : public std::enable_shared_from_this<Peering> {
 public:
  /// The name of the service that other processes ask for a trunk.
  static constexpr const char* kService = "sockets";

  /// Finds or makes the trunk to `process`, which listens at `at`. Then calls Stack::on_dialled() with the
  /// result.
  static void find(Stack& stack, const peer::Peer& process, const Address& at);
  /// Called when another process asks to share a trunk.
  static void on_request(Stack& stack, peer::Request request);
  /// Makes the fabric thread end the trunk soon. Data that has not been received by then is lost.
  void lose_trunk(int error);

 private:
  Peering(Stack& stack, peer::Peer process, bool is_opener)
      : stack_(stack), process_(std::move(process)), is_opener_(is_opener) {}

  /// The most trunks that a process may have with this process at a time, if that process has dialled.
  static constexpr int kMostTrunks = 4;

  static std::shared_ptr<Peering> with(const Stack& stack, const peer::Peer& process);
  static std::shared_ptr<Peering> begin(Stack& stack, peer::Peer process, bool is_opener);
  static bool has_too_many(const Stack& stack, const peer::Peer& process);
  bool is_lost() const;
  void make_trunk(std::vector<std::byte> their_blob);
  template <typename End>
  void end_trunk(End end);
  template <typename Work, typename Then>
  void on_carrier(Work work, Then then);
  void on_trunk(const Result<fabric::ConnectionBlob>& ours);
  void on_opened(Result<control::Channel> channel, std::vector<std::byte> their_blob);
  void start(control::Channel channel);
  void set_ready();
  void finish(const Result<std::shared_ptr<Mux>>& mux);
  void give_up(const Error& cause);

  Stack& stack_;
  const peer::Peer process_;
  const bool is_opener_;
  bool is_ready_ = false, is_over_ = false;
  bool is_crossed_ = false;  // true if the peer's crossing request replaces the request of this peering
  // The addresses at which sockets have dialled the process, until the outcome is reported to these sockets.
  std::vector<Address> dialled_;
  std::optional<peer::Request> request_;  // the peer's request, until this process has answered it
  std::optional<control::Channel> channel_;
  Carrier* carrier_ = nullptr;
  std::shared_ptr<Mux> mux_;
  std::shared_ptr<Trunk> trunk_;  // used on the fabric thread only
  control::Timer patience_;       // runs until the peering is ready
};

}  // namespace rdmc::sockets
