// How two processes come to share a trunk, for the sockets of both directions. Whichever process needs it
// first opens a channel to the other one's sockets, with what the link needs, and gets the same in the
// answer. The channel then stays and carries nothing: its end tells a process that the other has died. When
// both open a channel at the same time, the one of the process that has made the connection counts. A
// connection (controlplane/peer) has one trunk at most, and two processes have one connection. All on the
// loop's thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "controlplane/connect/channel.hpp"
#include "controlplane/peer/peers.hpp"
#include "lib/socket/stack.hpp"

namespace rdmc::sockets {

/// Whether a peer that is connected from `peer` to `local` of ours is a process of this host. Pure.
bool is_on_this_host(const Address& local, const Address& peer);

class Peering final : public std::enable_shared_from_this<Peering> {
 public:
  /// The service that others ask for a trunk.
  static constexpr const char* kService = "sockets";

  /// A socket is to be connected to `process`, which listens at `at`: Stack::on_dialled() tells with what
  /// trunk.
  static void find(Stack& stack, const peer::Peer& process, const Address& at);
  /// Another process wants to share a trunk.
  static void on_request(Stack& stack, peer::Request request);
  /// Has the carrier's thread end the trunk soon. What nobody has heard by then is lost.
  void lose_trunk(int error);

 private:
  Peering(Stack& stack, peer::Peer process, bool is_opener)
      : stack_(stack), process_(std::move(process)), is_opener_(is_opener) {}

  /// Of one process that has dialled us, at any time.
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
  bool is_crossed_ = false;               // the other's request takes our place
  std::vector<Address> dialled_;          // where we looked for it, until it has been told how that ended
  std::optional<peer::Request> request_;  // the other's, until it is answered
  std::optional<control::Channel> channel_;
  Carrier* carrier_ = nullptr;
  std::shared_ptr<Mux> mux_;
  std::shared_ptr<Trunk> trunk_;  // made on the carrier's thread
  control::Timer patience_;       // until it is ready
};

}  // namespace rdmc::sockets
