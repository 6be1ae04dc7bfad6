#include "controlplane/launch/job.hpp"

#include <boost/test/unit_test.hpp>

#include "controlplane/launch/launcher.hpp"
#include "controlplane/launch/own_address.hpp"

BOOST_AUTO_TEST_SUITE(job_test)

using namespace rdmc;
using namespace rdmc::control;

namespace {

const auto nobody = [](const std::string&) { return false; };

template <typename T>
std::string error_of(const Result<T>& result) {
  return result ? "no error" : std::string(name(result.error().code)) + ": " + result.error().what;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

const Variables kPmix{
    {"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "j"}, {"PMIX_SERVER_URI41", "tcp4://127.0.0.1:1"}};
const Variables kSlurm{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NODELIST", "n"}};
const Variables kHosts{{"RDMC_HOSTS", "n[1-2]"}};

Variables all(std::initializer_list<Variables> parts) {
  Variables sum;
  for (const auto& part : parts) sum.insert(part.begin(), part.end());
  return sum;
}

Result<void> usable() {
  return {};
}
Result<void> unusable() {
  return fail(Errc::unsupported, "libpmix is missing");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_hostlist_gives_each_process_its_rank_in_the_order_written) {
  const auto job = hostlist_job("n[3,1]:[7801-7802]", 2, nobody).value();
  BOOST_TEST(job.rank == 2u);
  BOOST_TEST((job.members == std::vector<Host>{{"n3", 7801}, {"n3", 7802}, {"n1", 7801}, {"n1", 7802}}));
}

BOOST_AUTO_TEST_CASE(without_a_rank_the_only_host_that_is_this_one_tells) {
  const auto is_n2 = [](const std::string& host) { return host == "n2"; };
  BOOST_TEST(hostlist_job("n[1-3]", std::nullopt, is_n2).value().rank == 1u);
  BOOST_TEST(mentions(error_of(hostlist_job("n1,n3", std::nullopt, is_n2)),
                      "none of the hosts 'n1,n3' is this one"));
  BOOST_TEST(mentions(error_of(hostlist_job("n2:[1-2]", std::nullopt, is_n2)), "several of the hosts"));
}

BOOST_AUTO_TEST_CASE(a_hostlist_that_makes_no_job_is_refused) {
  BOOST_TEST(
      mentions(error_of(hostlist_job("n[1-2]", 2, nobody)), "invalid argument: there is no rank 2 of 2"));
  BOOST_TEST(mentions(error_of(hostlist_job("n[", 0, nobody)), "position 2"));
  BOOST_TEST(mentions(error_of(hostlist_job("^hosts", 0, nobody)), "not read from a file"));
}

BOOST_AUTO_TEST_CASE(this_host_is_known_by_its_own_addresses_and_by_no_other_name) {
  BOOST_TEST(is_this_host("127.0.0.1"));
  BOOST_TEST(!is_this_host("192.0.2.1"));
  BOOST_TEST(!is_this_host("a-host-of-another-name.example.org"));
}

BOOST_AUTO_TEST_CASE(our_address_is_the_number_we_are_called_by_or_loopback_among_ourselves) {
  const auto address = [](const std::string& own, const std::vector<std::string>& hosts) {
    const auto found = own_address(own, hosts, seconds(5));
    return found ? host_string(*found) : error_of(found);
  };
  BOOST_TEST(address("here", {"here", "here"}) == "127.0.0.1");
  BOOST_TEST(address("127.0.0.9", {"127.0.0.9"}) == "127.0.0.9");
  BOOST_TEST(address("127.0.0.9", {"127.0.0.8", "127.0.0.9"}) == "127.0.0.9");
  BOOST_TEST(address("198.51.100.7", {"127.0.0.8", "198.51.100.7"}) == "198.51.100.7");
  // Other hosts cannot use the address of localhost. If this host has a route to them, they can use the
  // address from which it sends to them.
  BOOST_TEST(!address("localhost", {"localhost", "192.0.2.1"}).starts_with("127."));
}

BOOST_AUTO_TEST_CASE(the_launcher_that_knows_most_is_taken_and_why_is_told) {
  const auto chosen = [](const Variables& variables, Result<void> (*pmix)() = usable) {
    const auto choice = choose_launcher("auto", variables, pmix);
    return choice ? choice->why : error_of(choice);
  };
  BOOST_TEST(chosen(all({kPmix, kSlurm, kHosts})) == "pmix: PMIX_RANK is set");
  BOOST_TEST(chosen(all({kSlurm, kHosts})) == "slurm: SLURM_PROCID is set");
  BOOST_TEST(chosen(kHosts) == "hostlist: RDMC_HOSTS is set");
  BOOST_TEST(chosen(all({kPmix, kSlurm}), unusable) ==
             "slurm: SLURM_PROCID is set; pmix is there but cannot be used: libpmix is missing");
  for (const std::string remedy : {"not found", "mpirun", "srun", "RDMC_HOSTS"})
    BOOST_TEST(mentions(chosen({{"PMIX_RANK", "0"}, {"SLURM_PROCID", "0"}}), remedy), remedy);
  BOOST_TEST(mentions(chosen(kPmix, unusable), "libpmix is missing"));
}

BOOST_AUTO_TEST_CASE(a_launcher_that_is_asked_for_by_name_is_taken_or_refused) {
  const auto everything = all({kPmix, kSlurm, kHosts});
  BOOST_TEST((choose_launcher("slurm", everything, unusable).value().launcher == Launcher::slurm));
  BOOST_TEST((choose_launcher("hostlist", everything, unusable).value().launcher == Launcher::hostlist));
  BOOST_TEST(error_of(choose_launcher("pmix", everything, unusable)) == "unsupported: libpmix is missing");
  BOOST_TEST(mentions(error_of(choose_launcher("slurm", kHosts, usable)),
                      "not found: no slurm started this process"));
  BOOST_TEST(mentions(error_of(choose_launcher("pbs", everything, usable)), "'pbs' is no launcher"));
}

BOOST_AUTO_TEST_SUITE_END()
