#include "controlplane/launch/slurm.hpp"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <set>

BOOST_AUTO_TEST_SUITE(slurm_test)

using namespace rdmc;
using namespace rdmc::control;

namespace {

/// Returns the variables that srun 22.05 set for task 2 of a step with six tasks on four nodes (srun -N4
/// -n6).
Variables step_of_six() {
  return {{"SLURM_JOB_ID", "2"},         {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "2"},         {"SLURM_NODEID", "1"},
          {"SLURM_LOCALID", "0"},        {"SLURM_STEP_NODELIST", "n[0-3]"},
          {"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1(x2)"}};
}

Variables with(Variables variables, std::initializer_list<std::pair<std::string, std::string>> changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

/// Returns the job as text, such as "2: n0:9000 …", or the text of the error.
std::string told(const Variables& variables, std::uint16_t first_port = 9000) {
  const auto job = slurm_job(variables, first_port);
  if (!job) return fmt::format("{}: {}", name(job.error().code), job.error().what);
  std::string text = fmt::format("{}:", job->rank);
  for (const Host& host : job->members) text += " " + to_string(host);
  return text;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_are_dealt_to_nodes_as_srun_deals_them) {
  // srun produced each of these task layouts. The last one is the layout of plane=2 with seven tasks.
  BOOST_TEST(told(step_of_six()) == "2: n0:9000 n0:9001 n1:9000 n1:9001 n2:9000 n3:9000");
  BOOST_TEST(told(with(step_of_six(), {{"SLURM_DISTRIBUTION", "block:cyclic"}})) == told(step_of_six()));
  const auto cyclic = with(step_of_six(), {{"SLURM_DISTRIBUTION", "cyclic"}, {"SLURM_NODEID", "2"}});
  BOOST_TEST(told(cyclic) == "2: n0:9000 n1:9000 n2:9000 n3:9000 n0:9001 n1:9001");
  const auto plane = with(step_of_six(), {{"SLURM_DISTRIBUTION", "plane"},
                                          {"SLURM_DIST_PLANESIZE", "2"},
                                          {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}});
  BOOST_TEST(told(plane) == "2: n0:9000 n0:9001 n1:9000 n1:9001 n2:9000 n2:9001 n3:9000");
  const auto taller = with(plane, {{"SLURM_STEP_NODELIST", "n[0-1]"}, {"SLURM_STEP_TASKS_PER_NODE", "4,3"}});
  BOOST_TEST(told(taller) == "2: n0:9000 n0:9001 n1:9000 n1:9001 n0:9002 n0:9003 n1:9002");
}

BOOST_AUTO_TEST_CASE(node_names_may_be_anything_that_slurm_prints) {
  const auto named = [](const std::string& list, const std::string& tasks) {
    return told({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NODELIST", list}, {"SLURM_STEP_TASKS_PER_NODE", tasks}});
  };
  BOOST_TEST(named("login", "1") == "0: login:9000");
  BOOST_TEST(named("127.0.7.[1-2]", "1(x2)") == "0: 127.0.7.1:9000 127.0.7.2:9000");
  BOOST_TEST(named("r1n[08-10,12],gpu-a", "1(x4),2") ==
             "0: r1n08:9000 r1n09:9000 r1n10:9000 r1n12:9000 gpu-a:9000 gpu-a:9001");
}

BOOST_AUTO_TEST_CASE(ports_follow_from_the_step_and_stay_below_those_that_linux_gives_away) {
  std::set<std::uint16_t> first;
  for (int job = 1; job < 200; ++job) {
    const auto step = with(step_of_six(), {{"SLURM_JOB_ID", std::to_string(job)}});
    const auto members = slurm_job(step, 0).value().members;
    BOOST_TEST(
        (members[0].port >= 16384 && members[1].port == members[0].port + 1 && members[1].port < 32768));
    first.insert(members[0].port);
  }
  BOOST_TEST(first.size() == 64u);
  // Two steps that get the same ports must have different names.
  std::set<std::string> names;
  for (const auto& [job, step] : {std::pair("1", "0"), {"65", "0"}, {"2", "27"}}) {
    for (const auto rank : {"2", "3"}) {
      const auto of = slurm_job(with(step_of_six(), {{"SLURM_JOB_ID", job},
                                                     {"SLURM_STEP_ID", step},
                                                     {"SLURM_PROCID", rank},
                                                     {"SLURM_LOCALID", rank[0] == '2' ? "0" : "1"}}),
                                0)
                          .value();
      BOOST_TEST(of.members[0].port == 16384 + 256 * 37);
      names.insert(of.name);
    }
  }
  BOOST_TEST(names.size() == 3u);
  BOOST_TEST(mentions(told(step_of_six(), 65535), "from port 65535"));
  auto without = step_of_six();
  without.erase("SLURM_STEP_ID");
  BOOST_TEST(told(without, 0) == "not found: SLURM_STEP_ID is not set");
}

BOOST_AUTO_TEST_CASE(what_the_variables_do_not_tell_is_refused_with_the_remedy) {
  const std::pair<Variables, std::string> cases[] = {
      {{{"SLURM_DISTRIBUTION", "arbitrary"}}, "unsupported: SLURM_DISTRIBUTION is 'arbitrary'"},
      {{{"SLURM_NODEID", "0"}}, "unsupported: SLURM_NODEID is 0 and not 1"},
      {{{"SLURM_LOCALID", "1"}}, "unsupported: SLURM_LOCALID is 1 and not 0"},
      {{{"SLURM_PROCID", "6"}}, "unsupported: SLURM_PROCID is 6, but the step has 6 tasks"}};
  for (const auto& [changes, words] : cases) {
    const auto& [variable, value] = *changes.begin();
    const auto text = told(with(step_of_six(), {{variable, value}}));
    BOOST_TEST(mentions(text, words), text);
    BOOST_TEST(mentions(text, "srun --mpi=pmix"), text);
  }
}

BOOST_AUTO_TEST_CASE(broken_variables_are_named) {
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"SLURM_PROCID", "two", "SLURM_PROCID is 'two', which is no number"},
      {"SLURM_PROCID", "", "SLURM_PROCID is '', which is no number"},
      {"SLURM_LOCALID", "-1", "SLURM_LOCALID is '-1'"},
      {"SLURM_STEP_NODELIST", "n[0-", "SLURM_STEP_NODELIST: hostlist, position 2"},
      {"SLURM_STEP_NODELIST", "^file", "SLURM_STEP_NODELIST: a node's name does not begin so"},
      {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1", "that is not for 4 nodes"},
      {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1(x3)", "that is not for 4 nodes"},
      {"SLURM_STEP_TASKS_PER_NODE", "1(x4000000000)", "that is not for 4 nodes"},
      {"SLURM_STEP_TASKS_PER_NODE", "0(x4)", "that is not for 4 nodes"},
      {"SLURM_STEP_TASKS_PER_NODE", "2(x2", "a '(xN)' is broken"},
      {"SLURM_STEP_TASKS_PER_NODE", "2(x2)1(x2)", "a comma"},
      {"SLURM_STEP_TASKS_PER_NODE", "2,,2", "a number of tasks is missing"},
      {"SLURM_STEP_TASKS_PER_NODE", "", "a number of tasks is missing"}};
  for (const auto& [variable, value, words] : cases) {
    const auto text = told(with(step_of_six(), {{variable, value}}));
    BOOST_TEST(mentions(text, words), text);
  }
  BOOST_TEST(mentions(told(with(step_of_six(), {{"SLURM_DISTRIBUTION", "plane"}})),
                      "SLURM_DIST_PLANESIZE is not set"));
}

BOOST_AUTO_TEST_CASE(a_batch_script_is_no_step) {
  BOOST_TEST(is_slurm_step(step_of_six()));
  BOOST_TEST(!is_slurm_step({{"SLURM_PROCID", "0"}, {"SLURM_NODELIST", "n[0-3]"}, {"SLURM_NTASKS", "4"}}));
}

BOOST_AUTO_TEST_CASE(every_task_of_a_step_sees_the_same_job_with_each_place_once) {
  BOOST_TEST(rc::check([] {
    const auto counts = *rc::gen::suchThat(
        rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 9)),
        [](const auto& some) { return !some.empty() && some.size() < 40; });
    const auto distribution = *rc::gen::element<std::string>("", "block", "cyclic", "plane", "cyclic:block");
    std::string tasks;
    for (const auto count : counts) tasks += fmt::format("{}{}", tasks.empty() ? "" : ",", count);
    Variables step{{"SLURM_STEP_NODELIST", fmt::format("n[0-{}]", counts.size() - 1)},
                   {"SLURM_STEP_TASKS_PER_NODE", tasks},
                   {"SLURM_DIST_PLANESIZE", std::to_string(*rc::gen::inRange(1, 5))}};
    if (!distribution.empty()) step["SLURM_DISTRIBUTION"] = distribution;
    const auto total = std::accumulate(counts.begin(), counts.end(), 0U);
    const auto rank = *rc::gen::inRange(0U, total);
    const auto first = slurm_job(with(step, {{"SLURM_PROCID", "0"}}), 100).value();
    const auto ours = slurm_job(with(step, {{"SLURM_PROCID", std::to_string(rank)}}), 100).value();
    RC_ASSERT(ours.rank == rank);
    RC_ASSERT(ours.members == first.members);
    std::set<Host> places(ours.members.begin(), ours.members.end()), expected;
    for (std::size_t node = 0; node < counts.size(); ++node)
      for (std::uint32_t i = 0; i < counts[node]; ++i)
        expected.insert({fmt::format("n{}", node), static_cast<std::uint16_t>(100 + i)});
    RC_ASSERT(places == expected);
    RC_ASSERT(ours.members.size() == total);
  }));
}

BOOST_AUTO_TEST_CASE(any_text_in_the_variables_ends_in_a_job_that_has_us_or_in_a_named_error) {
  BOOST_TEST(rc::check([] {
    const auto text = [](const char* letters) {
      return rc::gen::container<std::string>(rc::gen::elementOf(std::string(letters)));
    };
    const Variables step{
        {"SLURM_PROCID", *text("012")},
        {"SLURM_STEP_NODELIST", *text("n01[]-,")},
        {"SLURM_STEP_TASKS_PER_NODE", *text("12(x),")},
        {"SLURM_DISTRIBUTION", *rc::gen::element<std::string>("block", "cyclic", "plane", ":")},
        {"SLURM_DIST_PLANESIZE", *text("01")}};
    const auto job = slurm_job(step, 100);
    if (job)
      RC_ASSERT(job->rank < job->members.size());
    else
      RC_ASSERT(!job.error().what.empty());
  }));
}

BOOST_AUTO_TEST_SUITE_END()
