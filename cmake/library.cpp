// Names the merged archive: it holds the objects of every library under src/ and no code of its own.
namespace simpler {
extern const char kLibraryVersion[];
const char kLibraryVersion[] = SIMPLER_VERSION_TEXT;
}  // namespace simpler
