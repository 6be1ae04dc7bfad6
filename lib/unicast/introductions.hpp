// Makes and ends an endpoint's connections, on the control plane. The dialing side makes a queue pair, opens
// a channel to the other endpoint's service, and sends its connection blob with this request. The other side
// makes and connects its queue pair, and accepts the channel. The dialing side then connects its own queue
// pair and sends Ready on the channel. From then on both sides have a connection. The channel stays open:
// Ended gives the cause of the connection's end, and the end of the channel shows that the peer has left or
// died. Everything runs on the control loop, except where a comment says otherwise. Only the fabric thread
// uses the queue pairs. If memory runs out, only the connection that lacks it ends.
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
  // The fabric thread calls these two functions.
  std::function<Result<void>(const PeerInfo&)> accept;
  std::function<void(const Connection&)> connected;
};

class Introductions final : public std::enable_shared_from_this<Introductions> {
 public:
  /// `data_path`, `peers` and `counters` must exist until stop() has returned.
  Introductions(DataPath& data_path, peer::Peers& peers, IntroductionOptions options, Counters& counters);
  Introductions(const Introductions&) = delete;
  Introductions& operator=(const Introductions&) = delete;

  /// Allows other endpoints to connect from now on. Any thread may call this function. Errors: those of
  /// Peers::serve and Peers::listen.
  Result<void> listen(const Address& address);
  bool listens() const { return listener_.has_value(); }
  /// The address at which this object listens.
  const Address& address() const { return listener_->address(); }

  /// Begins to connect. Any thread may call this function. Throws std::bad_alloc if there is no memory to
  /// begin; `done` is then never called.
  void connect(Endpoint::Target to, Duration timeout, Endpoint::ConnectDone done);
  /// Forgets a connection whose link has ended, and sends `cause` to the peer. Any thread may call this
  /// function.
  void forget(ConnectionId connection, const Error& cause);
  /// Refuses new connections, and cancels those that are not ready yet. Any thread except the control loop
  /// may call this function.
  void close();
  /// Stops listening and closes all channels. Must be called after DataPath::end_links(). Any thread except
  /// the control loop may call this function.
  void stop();

 private:
  /// One connection, from the request or the dial to its end.
  struct Entry {
    std::shared_ptr<Link> link;
    PeerInfo peer;
    std::optional<peer::Request> request;  // on the side that is dialed, until it is answered
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

  // Only the control loop uses the following member.
  std::map<ConnectionId, Entry> entries_;
};

}  // namespace rdmc::unicast
