#include "tests/dataplane/fabric/verbs/fake_device.hpp"

#include <sys/eventfd.h>

#include <cerrno>

#include "dataplane/fabric/verbs/verbs_terms.hpp"

#undef ibv_query_port
#undef ibv_reg_mr_iova

using rdmc::fabric::testing::FakeDevice;

namespace rdmc::fabric::testing {

FakeDevice& FakeDevice::instance() {
  static FakeDevice device;
  return device;
}

std::size_t FakeDevice::queue_pairs() {
  const std::scoped_lock lock(mutex);
  return all.size();
}

std::uint32_t FakeDevice::youngest() {
  const std::scoped_lock lock(mutex);
  return next_number - 1;
}

bool FakeDevice::names_memory(std::uint32_t number) {
  const std::scoped_lock lock(mutex);
  for (const auto& [handle, one] : all)
    if (handle->qp_num == number && one->with_memory > 0) return true;
  return false;
}

void FakeDevice::say_drained(std::uint32_t number) {
  const std::scoped_lock lock(mutex);
  for (const auto& [handle, one] : all) {
    if (handle->qp_num != number) continue;
    ibv_async_event event{};
    event.element.qp = handle;
    event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
    events.push_back(event);
  }
}

void FakeDevice::flush(QueuePair& one) {
  for (const ibv_wc& work : one.posted) completions[one.qp.send_cq].push_back(work);
  one.posted.clear();
  one.with_memory = 0;
}

}  // namespace rdmc::fabric::testing

namespace {

FakeDevice& fake() {
  return FakeDevice::instance();
}
std::unique_lock<std::recursive_mutex> locked() {
  return std::unique_lock(fake().mutex);
}

int poll(ibv_cq* queue, int most, ibv_wc* out) {
  const auto lock = locked();
  ++fake().polls;
  auto& waiting = fake().completions[queue];
  int count = 0;
  for (; count < most && !waiting.empty(); ++count) {
    out[count] = waiting.front();
    waiting.pop_front();
  }
  return count;
}

int post_send(ibv_qp* handle, ibv_send_wr* work, ibv_send_wr**) {
  const auto lock = locked();
  FakeDevice::QueuePair& one = *fake().all.at(handle);
  ibv_wc flushed{};
  flushed.wr_id = work->wr_id;
  flushed.status = IBV_WC_WR_FLUSH_ERR;
  flushed.qp_num = handle->qp_num;
  one.posted.push_back(flushed);
  one.with_memory += work->num_sge > 0 && (work->send_flags & IBV_SEND_INLINE) == 0 ? 1 : 0;
  return 0;
}
int post_receive(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) {
  return 0;
}
int post_shared_receive(ibv_srq*, ibv_recv_wr*, ibv_recv_wr**) {
  return 0;
}
int request_notification(ibv_cq*, int) {
  return 0;
}

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return new ibv_device* [2] { &fake().device, nullptr };
}
void ibv_free_device_list(ibv_device** list) {
  delete[] list;
}
const char* ibv_get_device_name(ibv_device*) {
  return "fake0";
}
const char* ibv_event_type_str(ibv_event_type) {
  return "an event";
}
const char* ibv_port_state_str(ibv_port_state) {
  return "a state";
}
const char* ibv_wc_status_str(ibv_wc_status) {
  return "a status";
}

ibv_context* ibv_open_device(ibv_device* device) {
  auto* const context = new ibv_context{};
  context->device = device;
  context->ops.poll_cq = poll;
  context->ops.post_send = post_send;
  context->ops.post_recv = post_receive;
  context->ops.post_srq_recv = post_shared_receive;
  context->ops.req_notify_cq = request_notification;
  fake().async = rdmc::Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  context->async_fd = fake().async.get();
  return context;
}
int ibv_close_device(ibv_context* context) {
  delete context;
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->max_cqe = 1 << 20;
  attributes->max_qp_wr = 1 << 14;
  attributes->max_srq = 16;
  attributes->max_srq_wr = 1 << 14;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = 16;
  return 0;
}
int ibv_query_port(ibv_context*, std::uint8_t, _compat_ibv_port_attr* attributes) {
  auto& port = *reinterpret_cast<ibv_port_attr*>(attributes);
  port.state = IBV_PORT_ACTIVE;
  port.active_mtu = IBV_MTU_4096;
  port.max_msg_sz = 1U << 31;
  return 0;
}
ssize_t _ibv_query_gid_table(ibv_context*, ibv_gid_entry* entries, std::size_t, std::uint32_t, std::size_t) {
  entries[0] = {.gid = rdmc::fabric::gid_of(fake().address), .gid_index = 1, .port_num = 1};
  entries[0].gid_type = IBV_GID_TYPE_ROCE_V2;
  return 1;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* const domain = new ibv_pd{};
  domain->context = context;
  return domain;
}
int ibv_dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd*, void* at, std::size_t bytes, std::uint64_t, unsigned) {
  auto* const region = new ibv_mr{};
  region->addr = at;
  region->length = bytes;
  region->lkey = region->rkey = 5;
  return region;
}
int ibv_dereg_mr(ibv_mr* region) {
  delete region;
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* const channel = new ibv_comp_channel{};
  channel->context = context;
  channel->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  close(channel->fd);
  delete channel;
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int entries, void*, ibv_comp_channel* channel, int) {
  auto* const queue = new ibv_cq{};
  queue->context = context;
  queue->channel = channel;
  queue->cqe = entries;
  return queue;
}
int ibv_resize_cq(ibv_cq* queue, int entries) {
  queue->cqe = entries;
  return 0;
}
int ibv_destroy_cq(ibv_cq* queue) {
  const auto lock = locked();
  fake().completions.erase(queue);
  delete queue;
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel*, ibv_cq**, void**) {
  return -1;
}
void ibv_ack_cq_events(ibv_cq*, unsigned) {}
ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr*) {
  auto* const queue = new ibv_srq{};
  queue->context = domain->context;
  return queue;
}
int ibv_destroy_srq(ibv_srq* queue) {
  delete queue;
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  const auto lock = locked();
  auto made = std::make_unique<FakeDevice::QueuePair>();
  made->qp.context = domain->context;
  made->qp.qp_num = fake().next_number++;
  made->qp.send_cq = wanted->send_cq;
  ibv_qp* const handle = &made->qp;
  fake().all.emplace(handle, std::move(made));
  return handle;
}
int ibv_modify_qp(ibv_qp* handle, ibv_qp_attr* attributes, int) {
  const auto lock = locked();
  FakeDevice::QueuePair& one = *fake().all.at(handle);
  one.state = attributes->qp_state;
  if (one.state == IBV_QPS_ERR && fake().flushes_at_once) fake().flush(one);
  return 0;
}
int ibv_destroy_qp(ibv_qp* handle) {
  const auto lock = locked();
  std::erase_if(fake().events, [&](const ibv_async_event& event) { return event.element.qp == handle; });
  fake().all.erase(handle);
  ++fake().destroyed;
  return 0;
}

int ibv_get_async_event(ibv_context*, ibv_async_event* out) {
  const auto lock = locked();
  if (fake().events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *out = fake().events.front();
  fake().events.pop_front();
  return 0;
}
void ibv_ack_async_event(ibv_async_event*) {}

}  // extern "C"
