#include "dataplane/port/dpdk/eal.hpp"

#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <optional>
#include <semaphore>
#include <utility>
#include <vector>

#include "dataplane/port/dpdk/host_environment.hpp"
#include "dataplane/port/dpdk/memif_gate.hpp"

namespace rdmc::port::dpdk {
namespace {

/// The size of DPDK's memory in megabytes if there are no hugepages. It is one mapping, made at the start.
/// Only the pages that are used consume memory.
constexpr const char* kOrdinaryMegabytes = "1024";
/// The maximum length of the log text that is kept.
constexpr std::size_t kMostComplaint = 600;

/// The last warnings and errors that DPDK has logged. The newest is at the end.
class Complaints {
 public:
  void add(std::string_view text) {
    const std::lock_guard lock(mutex_);
    text_.append(text);
    if (text_.size() > kMostComplaint) text_.erase(0, text_.size() - kMostComplaint);
  }
  std::string take() {
    const std::lock_guard lock(mutex_);
    std::string text = std::exchange(text_, {});
    while (text.ends_with('\n')) text.pop_back();
    std::ranges::replace(text, '\n', ';');
    return text;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

/// Returns the only Complaints object. It is never destroyed, because DPDK's threads log until the process
/// has ended.
Complaints& complaints() {
  static auto* const all = new Complaints;
  return *all;
}

ssize_t write_complaint(void*, const char* text, size_t size) {
  const std::string_view line(text, size);
  const bool complains = rte_log_cur_msg_loglevel() <= static_cast<int>(RTE_LOG_WARNING);
  complains ? complaints().add(line) : MemifGate::on_log(line);
  return static_cast<ssize_t>(size);
}

void keep_log() {
  FILE* const stream = fopencookie(nullptr, "w", {.write = write_complaint});
  if (stream == nullptr) return;
  setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
  rte_openlog_stream(stream);
}

std::vector<std::string> arguments(const DpdkOptions& options, const cpu_set_t& affinity) {
  int cpu = 0;
  while (cpu + 1 < CPU_SETSIZE && !CPU_ISSET(cpu, &affinity)) ++cpu;
  // EAL creates a thread for each of its cores and binds the thread to that core. EAL gets only one core
  // here, because this library creates the threads itself.
  std::vector<std::string> words{"rdmc",
                                 "--no-telemetry",
                                 "--log-level=*:5",
                                 "--single-file-segments",  // A memif without copies requires this option.
                                 "--file-prefix=rdmc-" + std::to_string(getpid()),
                                 "--lcores=0@" + std::to_string(cpu)};
  if (options.hugepages)
    words.insert(words.end(), {"--in-memory"});
  else
    words.insert(words.end(), {"--no-huge", "--no-shconf", "-m", kOrdinaryMegabytes});
  if (options.is_virtual)
    words.insert(words.end(), {"--no-pci", "--iova-mode=va"});
  else
    words.insert(words.end(), {"-a", options.device});
  return words;
}

/// The options with which EAL was started.
struct Started {
  bool hugepages, pci;
};

struct Eal {
  std::mutex mutex;
  std::optional<Started> started;
};

Eal& eal() {
  static Eal the_one;
  return the_one;
}

}  // namespace

Result<void> start_eal(const DpdkOptions& options) {
  const std::lock_guard lock(eal().mutex);
  if (const auto& started = eal().started) {
    if (started->hugepages != options.hugepages)
      return fail(Errc::invalid_argument, "this process runs DPDK already, with the other kind of pages");
    if (!started->pci && !options.is_virtual)
      return fail(Errc::invalid_argument, "this process runs DPDK already, without the PCI bus");
    return {};
  }
  if (auto room = room_for_descriptors(); !room) return room;
  keep_log();
  cpu_set_t affinity;
  sched_getaffinity(0, sizeof affinity, &affinity);
  auto words = arguments(options, affinity);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  const int result = rte_eal_init(static_cast<int>(pointers.size()), pointers.data());
  // EAL binds the thread that starts it to a core. This restores the thread's own affinity.
  sched_setaffinity(0, sizeof affinity, &affinity);
  if (result < 0) {
    const int error = rte_errno;
    return fail(error == ENOMEM ? Errc::resource_limit : Errc::unsupported,
                "DPDK does not start: " + take_eal_complaints());
  }
  rte_log_set_level_pattern("pmd.net.memif", RTE_LOG_DEBUG);  // MemifGate reads these log lines.
  // EAL creates the directory in any case and leaves it empty.
  if (!options.hugepages) rmdir(rte_eal_get_runtime_dir());
  eal().started = Started{.hugepages = options.hugepages, .pci = !options.is_virtual};
  return {};
}

std::optional<bool> eal_has_hugepages() {
  const std::lock_guard lock(eal().mutex);
  return eal().started.transform([](const Started& started) { return started.hugepages; });
}

std::string take_eal_complaints() {
  return complaints().take();
}

void on_interrupt_thread(const std::function<void()>& call) {
  struct Errand {
    const std::function<void()>& call;
    std::binary_semaphore done{0};
  } errand{call};
  const auto run = [](void* argument) {
    auto& wanted = *static_cast<Errand*>(argument);
    wanted.call();
    wanted.done.release();
  };
  if (rte_eal_alarm_set(1, run, &errand) == 0)
    errand.done.acquire();
  else
    call();
}

void register_this_thread() {
  struct Registration {
    Registration() : ours(rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0) {}
    ~Registration() {
      if (ours) rte_thread_unregister();
    }
    bool ours;
  };
  if (rte_lcore_id() != LCORE_ID_ANY) return;
  thread_local const Registration registration;
}

}  // namespace rdmc::port::dpdk
