// Opens the view store that the application's options name, and the store node that this process runs, if
// any.
#pragma once

#include <functional>
#include <memory>

#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/store/store_node.hpp"
#include "controlplane/view/view_store.hpp"
#include "lib/include/rdmc/membership.hpp"

namespace rdmc::member_groups {

struct OpenStore {
  std::unique_ptr<store::StoreNode> node;  ///< null if this process runs no store node
  std::unique_ptr<view::ViewStore> client;
};

/// Any thread may call it. The loop must outlive the result. `ended` is called when the store node has ended.
/// Errors: invalid_argument if the options do not name exactly one kind of store, or no such node; and those
/// of StoreNode::start, EmbeddedStore::create and EtcdStore::create.
Result<OpenStore> open_store(control::ControlLoop& loop, const control::ChannelOptions& channel,
                             const ViewStoreOptions& options, std::function<void(const Error& cause)> ended);

}  // namespace rdmc::member_groups
