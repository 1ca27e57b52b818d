#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "backends/common/store.h"

namespace trainyard {

// The kinds of store; `place` is the address after its scheme, and one that does not answer is
// waited for as long as `patience`. Both throw ConfigError.

// A file a key below the folder `place`/`run_id`, which is made when it is missing.
std::unique_ptr<Store> open_file_store(std::string_view place, std::string_view run_id,
                                       std::chrono::milliseconds patience);

// A Redis server at `place`, "//host:port"; keys begin with the run id and expire after a week.
std::unique_ptr<Store> open_redis_store(std::string_view place, std::string_view run_id,
                                        std::chrono::milliseconds patience);

// The text with every byte but letters, digits, '_' and '-' as %XX: one name of a file, or one part
// of a key, from any bytes.
std::string escaped(std::string_view text);

}  // namespace trainyard
