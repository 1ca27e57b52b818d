#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "backends/common/store.h"

namespace trainyard {

// The kinds of store; `place` is the address after its scheme. Both throw ConfigError.

// A file a key below the folder `place`/`run_id`, which is made when it is missing.
std::unique_ptr<Store> open_file_store(std::string_view place, std::string_view run_id);

// A Redis server at `place`, "//host:port"; keys begin with the run id and expire after a week.
std::unique_ptr<Store> open_redis_store(std::string_view place, std::string_view run_id);

// The text with every byte but letters, digits, '_' and '-' as %XX: one name of a file, or one part
// of a key, from any bytes.
std::string escaped(std::string_view text);

}  // namespace trainyard
