# Training on several ranks: every grid gives the curve of one rank.
add_executable(mpi_grids mpi/train/grids.cpp)
target_link_libraries(mpi_grids PRIVATE trireme_train)
foreach(precision fp64 fp32)
  add_test(NAME mpi.grids.${precision} COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} 16 $<TARGET_FILE:mpi_grids> ${precision})
  set_tests_properties(mpi.grids.${precision} PROPERTIES LABELS mpi TIMEOUT 600 PROCESSORS 2 ENVIRONMENT "${mpi_env}")
endforeach()
