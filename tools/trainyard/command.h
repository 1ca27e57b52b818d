#pragma once
#include <functional>

namespace CLI {
class App;
}

namespace trainyard {

// What the chosen subcommand does; returns the exit code: 0 done, 1 the run failed or an
// expectation was missed, 2 bad input. A thrown ConfigError counts as 2, anything else as 1.
using Action = std::function<int()>;

// Each adds its subcommand to `app`; when it is chosen, `action` is set after parsing.
void add_sim(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_sweep(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_net(CLI::App& app, Action& action);
void add_validate(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_schema(CLI::App& app, Action& action);
void add_version(CLI::App& app, Action& action);

}  // namespace trainyard
