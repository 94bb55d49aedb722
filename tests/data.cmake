# Tokenizers have a folder of their own below src/data, and their tests look at its parts.
file(GLOB tokenizer_tests CONFIGURE_DEPENDS unit/data/tokenizer/*.cpp)
target_sources(unit_data PRIVATE ${tokenizer_tests})
target_include_directories(unit_data PRIVATE ${PROJECT_SOURCE_DIR}/src)
add_test(NAME unit.data.long COMMAND unit_data [.long])
set_tests_properties(unit.data.long PROPERTIES LABELS slow TIMEOUT 1200)
if(TARGET trireme_tool_preprocess)
  add_test(NAME system.preprocess COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/system/preprocess.py
                                          $<TARGET_FILE:trireme_tool_preprocess> $<TARGET_FILE:trireme_tool_inspect>
                                          ${CMAKE_CURRENT_SOURCE_DIR}/data)
  set_tests_properties(system.preprocess PROPERTIES LABELS unit TIMEOUT 300)
endif()
add_test(NAME unit.data.huge COMMAND unit_data [.huge])
set_tests_properties(unit.data.huge PROPERTIES LABELS slow TIMEOUT 300)
