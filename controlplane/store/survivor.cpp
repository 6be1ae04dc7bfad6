#include "controlplane/store/survivor.hpp"

#include <future>
#include <memory>
#include <optional>

#include "controlplane/connect/connector.hpp"
#include "controlplane/store/caspaxos/messages.hpp"

namespace rdmc::store {
namespace {

constexpr Duration kWithin = seconds(10);

/// One request and its answer. It must be used on the loop's thread.
struct Asked : std::enable_shared_from_this<Asked> {
  explicit Asked(bool force) : forced(force) {}

  const bool forced;
  std::promise<Result<void>> answer;
  bool answered = false;
  control::Connecting connecting;
  std::optional<control::Channel> channel;
  control::Timer late;

  void finish(Result<void> result) {
    if (std::exchange(answered, true)) return;
    answer.set_value(std::move(result));
  }

  void use(control::Channel made) {
    channel.emplace(std::move(made));
    channel->start(
        [self = weak_from_this()](const std::vector<std::byte>& message) {
          if (const auto asked = self.lock()) asked->hear(message);
        },
        [self = weak_from_this()](const Error& cause) {
          if (const auto asked = self.lock()) asked->finish(std::unexpected(cause));
        });
    if (auto sent = channel->send(encode(Request{1, Survive{forced}})); !sent) finish(std::move(sent));
  }

  void hear(std::span<const std::byte> message) {
    const auto reply = decode_reply(message);
    if (!reply) return finish(std::unexpected(reply.error()));
    if (const auto* const refusal = std::get_if<Refusal>(&reply->body))
      return finish(fail(Errc::peer_failed, "the node refuses: " + refusal->text));
    finish({});
  }
};

}  // namespace

Result<void> name_survivor(control::ControlLoop& loop, const Address& node,
                           const control::ChannelOptions& options, bool force) {
  const auto asked = std::make_shared<Asked>(force);
  auto answer = asked->answer.get_future();
  loop.call([&] {
    asked->late = loop.after(
        kWithin, [asked] { asked->finish(fail(Errc::timed_out, "the node has not answered in time")); });
    asked->connecting = control::connect(loop, host_string(node), node.port, options, kWithin,
                                         [asked](Result<control::Channel> made) {
                                           if (!made) return asked->finish(std::unexpected(made.error()));
                                           asked->use(std::move(*made));
                                         });
  });
  auto result = answer.get();
  loop.call([&] {
    asked->late = {};
    asked->connecting = {};
    asked->channel.reset();
  });
  return result;
}

}  // namespace rdmc::store
