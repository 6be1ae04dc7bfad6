#include "apps/control/store_session.hpp"

#include <future>
#include <sstream>

#include "controlplane/store/embedded_store.hpp"
#include "controlplane/store/etcd_store.hpp"

namespace rdmc::control_app {
namespace {

constexpr std::string_view kEtcd = "etcd:";
constexpr std::uint16_t kEtcdPort = 2379;

/// Calls `ask` on the control loop's thread, and waits for the answer of the store.
template <typename T, typename Ask>
Result<T> answer_of(control::ControlLoop& loop, Ask ask) {
  const auto promise = std::make_shared<std::promise<Result<T>>>();
  auto future = promise->get_future();
  loop.call([&] { ask([promise](Result<T> result) { promise->set_value(std::move(result)); }); });
  return future.get();
}

template <typename T>
Result<std::unique_ptr<view::ViewStore>> as_store(Result<std::unique_ptr<T>> made) {
  if (!made) return std::unexpected(made.error());
  return std::unique_ptr<view::ViewStore>(std::move(*made));
}

Result<std::unique_ptr<view::ViewStore>> open_store(control::ControlLoop& loop, const StoreChoice& choice) {
  const bool etcd = choice.store.starts_with(kEtcd);
  auto addresses =
      parse_addresses(etcd ? choice.store.substr(kEtcd.size()) : choice.store, etcd ? kEtcdPort : kStorePort);
  if (!addresses) return std::unexpected(addresses.error());
  if (etcd) return as_store(store::EtcdStore::create(loop, {.endpoints = std::move(*addresses)}));
  auto security = control::security_of(choice.identity);
  if (!security) return std::unexpected(security.error());
  return as_store(store::EmbeddedStore::create(
      loop, {.nodes = std::move(*addresses), .channel = {.security = std::move(*security)}}));
}

}  // namespace

Result<std::vector<Address>> parse_addresses(const std::string& text, std::uint16_t default_port) {
  std::vector<Address> addresses;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto address = parse_address(word, default_port);
    if (!address) return std::unexpected(address.error());
    addresses.push_back(*address);
  }
  return addresses;
}

Result<std::unique_ptr<StoreSession>> StoreSession::open(const StoreChoice& choice) {
  auto loop = control::ControlLoop::create();
  if (!loop) return std::unexpected(loop.error());
  auto session = std::unique_ptr<StoreSession>(new StoreSession(std::move(*loop)));
  auto store = open_store(*session->loop_, choice);
  if (!store) return std::unexpected(store.error());
  session->store_ = std::move(*store);
  return session;
}

StoreSession::~StoreSession() = default;

Result<std::vector<view::GroupView>> StoreSession::list() {
  return answer_of<std::vector<view::GroupView>>(*loop_, [&](auto done) { store_->list(std::move(done)); });
}
Result<view::View> StoreSession::read(const std::string& group) {
  return answer_of<view::View>(*loop_, [&](auto done) { store_->read(group, std::move(done)); });
}
Result<view::SwapResult> StoreSession::swap(const std::string& group, const view::View& next) {
  return answer_of<view::SwapResult>(
      *loop_, [&](auto done) { store_->compare_and_swap(group, next, std::move(done)); });
}
void StoreSession::watch(const std::string& group, view::ViewStore::Hint hint) {
  loop_->call([&] { store_->watch(group, std::move(hint)); });
}

}  // namespace rdmc::control_app
