# Tokenizers have a folder of their own below src/data, and their tests look at its parts.
file(GLOB tokenizer_tests CONFIGURE_DEPENDS unit/data/tokenizer/*.cpp)
target_sources(unit_data PRIVATE ${tokenizer_tests})
target_include_directories(unit_data PRIVATE ${PROJECT_SOURCE_DIR}/src)
add_test(NAME unit.data.long COMMAND unit_data [.long])
set_tests_properties(unit.data.long PROPERTIES LABELS slow TIMEOUT 1200)
