// The store that a membership's views are agreed in, as the application's options name it, and the node of it
// that this process runs, if any.
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
  std::unique_ptr<store::StoreNode> node;  ///< null: this process runs none
  std::unique_ptr<view::ViewStore> client;
};

/// Any thread; the loop outlives it. `ended`: as NodeOptions has it. Errors: invalid_argument (not one of the
/// two kinds; no such node), those of StoreNode::start, EmbeddedStore::create and EtcdStore::create.
Result<OpenStore> open_store(control::ControlLoop& loop, const control::ChannelOptions& channel,
                             const ViewStoreOptions& options, std::function<void(const Error& cause)> ended);

}  // namespace rdmc::member_groups
