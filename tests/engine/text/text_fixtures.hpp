// Files that the tests of engine/text read: committed vectors, the bundled model, and, when it is
// there, the shared folder with all reference rows (TROUPE_SHARED, default beside the repository).

#pragma once

#include "engine/text/json_value.hpp"
#include "engine/text/tokenizer.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::text {

/// Path below tests/vectors/text.
std::string vector_path(const std::string& name);

/// Path of a file of the shared folder, or nothing when it is not there.
std::optional<std::string> shared_path(const std::string& name);

/// The same for what belongs to full tokenizers, which take too long under the sanitizers.
std::optional<std::string> full_size_path(const std::string& name);

/// Folder of the bundled model, in the repository or else in the shared folder.
std::string nano_folder();

/// A file's bytes, unpacked when its name ends in .gz. Fails the test when it cannot be read.
std::string read_fixture(const std::string& path);

/// The rows of a JSON Lines file.
std::vector<JsonValue> read_rows(const std::string& path);

/// A tokenizer from a plain or packed file; each file is loaded once.
std::shared_ptr<const Tokenizer> tokenizer_from(const std::string& path);

/// Field of a row that must be a string, an array of ids, a number.
std::string text_of(const JsonValue& row, const std::string& key);
std::vector<std::int32_t> ids_of(const JsonValue& row, const std::string& key);

/// Splits text into characters.
std::vector<std::string> characters(const std::string& text);

} // namespace troupe::text
