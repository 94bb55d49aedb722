# The job scripts of jobs/ on a real Slurm of one node, started by the test; skipped (with the reason) where slurmctld, munge
# or root are missing.
if(NOT TARGET trireme)
  return()
endif()
foreach(variant "" .limit)
  add_test(NAME slurm${variant} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/slurm/slurm.py $<$<STREQUAL:${variant},.limit>:--all>
                                        $<TARGET_FILE:trireme> ${PROJECT_SOURCE_DIR} COMMAND_EXPAND_LISTS)
  set_tests_properties(slurm${variant} PROPERTIES LABELS slurm TIMEOUT 1500 PROCESSORS 2 SKIP_RETURN_CODE 77)
endforeach()
set_tests_properties(slurm.limit PROPERTIES LABELS "slurm;slow")
