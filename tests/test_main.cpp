// The main() of every test program. The precompiled header (prelude.hpp) includes Boost.Test without a
// main().
#include <boost/test/tree/traverse.hpp>
#include <boost/test/tree/visitor.hpp>
#include <boost/test/unit_test.hpp>
#include <iostream>

namespace {

using namespace boost::unit_test;

/// Visits the test units at the top level of the program: the suites of files, and the units that are in no
/// such suite.
class TopLevel final : public test_tree_visitor {
 public:
  void visit(const test_case& one) override { see(one, false); }
  bool test_suite_start(const test_suite& suite) override {
    see(suite, suite.p_name.get().ends_with("_test"));
    return suite.p_id == master();
  }

  /// True if a unit would never run. Meson runs a program that several files share one suite at a time, so it
  /// would never run a unit outside of the suites.
  bool leaves_something_out() const { return has_suites_ && !outside_.empty(); }
  const std::string& outside() const { return outside_; }

 private:
  static test_unit_id master() { return framework::master_test_suite().p_id; }
  void see(const test_unit& unit, bool is_of_a_file) {
    if (unit.p_parent_id != master()) return;
    if (is_of_a_file)
      has_suites_ = true;
    else
      outside_ = unit.p_name;
  }

  bool has_suites_ = false;
  std::string outside_;
};

bool is_complete() {
  TopLevel top;
  traverse_test_tree(framework::master_test_suite(), top, true);
  if (!top.leaves_something_out()) return true;
  std::cerr << top.outside() << " is in no suite of a file, and so nothing would run it\n";
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  return boost::unit_test::unit_test_main(is_complete, count, arguments);
}
