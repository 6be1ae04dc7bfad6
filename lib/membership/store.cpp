#include "lib/membership/store.hpp"

#include <utility>

#include "controlplane/store/embedded_store.hpp"
#include "controlplane/store/etcd_store.hpp"

namespace rdmc::member_groups {

Result<OpenStore> open_store(control::ControlLoop& loop, const control::ChannelOptions& channel,
                             const ViewStoreOptions& options, std::function<void(const Error& cause)> ended) {
  if (options.nodes.empty() == options.etcd.empty())
    return fail(Errc::invalid_argument, "views are kept in the embedded store or in etcd, in one of the two");
  OpenStore opened;
  if (!options.etcd.empty()) {
    if (options.runs) return fail(Errc::invalid_argument, "no process of a membership runs a node of etcd");
    auto etcd = store::EtcdStore::create(loop, {.endpoints = options.etcd});
    if (!etcd) return std::unexpected(etcd.error());
    opened.client = std::move(*etcd);
    return opened;
  }
  if (options.runs) {
    if (*options.runs >= options.nodes.size())
      return fail(Errc::invalid_argument, "the store has no node of that number");
    auto node = store::StoreNode::start(loop, {.directory = options.directory,
                                               .self = *options.runs,
                                               .nodes = options.nodes,
                                               .listen = options.nodes[*options.runs],
                                               .channel = {.channel = channel},
                                               .ended = std::move(ended)});
    if (!node) return std::unexpected(node.error());
    opened.node = std::move(*node);
  }
  auto embedded = store::EmbeddedStore::create(loop, {.nodes = options.nodes, .channel = channel});
  if (!embedded) return std::unexpected(embedded.error());
  opened.client = std::move(*embedded);
  return opened;
}

}  // namespace rdmc::member_groups
