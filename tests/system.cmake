# The whole program: what it says and leaves behind when started by a user. Python drives, mpirun launches.
if(NOT TARGET trireme)
  return()
endif()
function(trireme_system_test name script)
  add_test(NAME system.${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/system/${script}.py ${ARGN}
                                       $<TARGET_FILE:trireme> ${mpi_run} ${MPIEXEC_NUMPROC_FLAG})
  set_tests_properties(system.${name} PROPERTIES LABELS mpi TIMEOUT 600 PROCESSORS 2 ENVIRONMENT "${mpi_env}")
endfunction()

foreach(script commands planning bad_inputs disturbed endings report trace trouble resume convert)
  trireme_system_test(${script} ${script})
endforeach()
if(NOT TRIREME_SANITIZE)  # shadow memory is not planned
  trireme_system_test(memory memory)
  trireme_system_test(memory.all memory --all)
  set_tests_properties(system.memory.all PROPERTIES LABELS slow)
endif()
trireme_system_test(resume.all resume --all)
set_tests_properties(system.resume.all PROPERTIES LABELS slow)

# Checkpoints: writes that fail (injected into the program by a preloaded library), processes that are killed, tools.
foreach(what writes products)
  add_library(faulty_${what} MODULE system/faulty_${what}.c)
  target_link_libraries(faulty_${what} PRIVATE ${CMAKE_DL_LIBS})
endforeach()
if(NOT TRIREME_SANITIZE)  # the sanitizers want to be loaded first
  trireme_system_test(hardware hardware $<TARGET_FILE:faulty_products>)
  trireme_system_test(faults faults $<TARGET_FILE:faulty_writes>)
  trireme_system_test(faults.all faults --all $<TARGET_FILE:faulty_writes>)
  set_tests_properties(system.faults.all PROPERTIES LABELS slow TIMEOUT 3600)
endif()
foreach(script kills checkpoint_tools)
  trireme_system_test(${script} ${script})
endforeach()
trireme_system_test(kills.all kills --all)
set_tests_properties(system.kills.all PROPERTIES LABELS slow TIMEOUT 7200)
trireme_system_test(disturbed.all disturbed --all)
set_tests_properties(system.disturbed.all PROPERTIES LABELS slow TIMEOUT 5400)
