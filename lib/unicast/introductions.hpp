// How an endpoint's connections come about and end, on the control plane. The side that dials makes a queue
// pair and opens a channel to the other endpoint's service with it; the other side makes and connects its own
// and accepts; the first connects, says Ready on the channel, and from then on both have a connection. The
// channel stays: its end tells that the peer has left or died, and Ended says why. Everything happens on the
// control loop but what is marked otherwise; the queue pairs are touched on the fabric thread alone. A
// connection that lacks memory ends, and no other one.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "controlplane/peer/peers.hpp"
#include "lib/unicast/data_path.hpp"
#include "lib/unicast/messages.hpp"

namespace rdmc::unicast {

struct IntroductionOptions {
  std::string name;
  Bytes private_data;
  std::size_t most_connections = 1024;
  LinkOptions link;
  // On the fabric thread.
  std::function<Result<void>(const PeerInfo&)> accept;
  std::function<void(const Connection&)> connected;
};

class Introductions final : public std::enable_shared_from_this<Introductions> {
 public:
  /// `data_path`, `peers` and `counters` outlive the last of its turns: see stop().
  Introductions(DataPath& data_path, peer::Peers& peers, IntroductionOptions options, Counters& counters);
  Introductions(const Introductions&) = delete;
  Introductions& operator=(const Introductions&) = delete;

  /// Any thread: lets others connect. Errors: those of Peers::serve and Peers::listen.
  Result<void> listen(const Address& address);
  bool listens() const { return listener_.has_value(); }
  /// Where it listens.
  const Address& address() const { return listener_->address(); }

  /// Any thread. Throws std::bad_alloc before there is anything that could end.
  void connect(Endpoint::Target to, Duration timeout, Endpoint::ConnectDone done);
  /// Any thread: the link is over, for the endpoint as well.
  void forget(ConnectionId connection, const Error& cause);
  /// Any thread but the loop's: nobody connects any more, and connect() under way is cancelled.
  void close();
  /// Any thread but the loop's, when the data path has stopped: all channels are gone.
  void stop();

 private:
  /// One connection, from the first message to the last.
  struct Entry {
    std::shared_ptr<Link> link;
    PeerInfo peer;
    std::optional<peer::Request> request;  // of whoever is dialed, until it is answered
    bool dials = false, is_ready = false;
    std::optional<control::Channel> channel;
    peer::Peers::Handle dialing;
    control::Timer patience;
  };

  static std::string service_of(const std::string& name) { return "unicast/" + name; }
  std::shared_ptr<Link> make_link();
  Entry* find(ConnectionId id);
  template <typename Step>
  auto step(ConnectionId id, Step step);
  template <typename Work, typename Then>
  void on_engine(ConnectionId id, Work work, Then then);
  Bytes greeting(const Bytes& private_data) const;

  void begin(const std::shared_ptr<Link>& link, const Endpoint::Target& to, Duration timeout);
  void dial(ConnectionId id, const Endpoint::Target& to, Duration timeout, fabric::ConnectionBlob blob);
  void on_answer(ConnectionId id, Result<control::Channel> channel, const peer::Offer& theirs);
  void on_request(peer::Request request);
  void receive(const std::shared_ptr<Link>& link, peer::Request request, Greeting greeted);
  void answer(ConnectionId id, fabric::ConnectionBlob blob);
  void start(ConnectionId id);
  void on_message(ConnectionId id, const Bytes& bytes);
  void set_ready(ConnectionId id);
  void on_closed(ConnectionId id, const Error& cause);
  void give_up(ConnectionId id, Error cause);
  void say_last(Entry& entry, const Error& cause);

  DataPath& data_path_;
  peer::Peers& peers_;
  const IntroductionOptions options_;
  Counters& counters_;
  std::atomic<std::uint64_t> next_id_ = 1;
  std::atomic<bool> is_closed_ = false;
  peer::Peers::Handle service_;
  std::optional<control::Listener> listener_;

  // The loop's.
  std::map<ConnectionId, Entry> entries_;
};

}  // namespace rdmc::unicast
