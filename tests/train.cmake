# A device of a test is made from the CPU backend, which has no public header.
target_include_directories(unit_train PRIVATE ${PROJECT_SOURCE_DIR}/src)

# Training on several ranks: every grid gives the curve of one rank.
add_executable(mpi_grids mpi/train/grids.cpp)
target_link_libraries(mpi_grids PRIVATE trireme_train)
foreach(precision fp64 fp32 fp8)
  add_test(NAME mpi.grids.${precision}
           COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} 16 $<TARGET_FILE:mpi_grids> ${precision})
  set_tests_properties(mpi.grids.${precision} PROPERTIES LABELS mpi TIMEOUT 600 PROCESSORS 2 ENVIRONMENT "${mpi_env}")
endforeach()

# Models of Hugging Face: their loss, logits and gradients on one rank and on grids.
add_executable(hf_parity parity/hf/hf_parity.cpp)
target_link_libraries(hf_parity PRIVATE trireme_train)
add_test(NAME mpi.hf_parity
         COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} 8 $<TARGET_FILE:hf_parity> ${CMAKE_CURRENT_SOURCE_DIR}/parity/hf)
set_tests_properties(mpi.hf_parity PROPERTIES LABELS mpi TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${mpi_env}")

# Ranks that hang: who is named, how the job ends.
add_executable(mpi_watch mpi/train/watch/watch.cpp)
target_link_libraries(mpi_watch PRIVATE trireme_train)
add_test(NAME mpi.watch COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/train/watch/watch.py
                                $<TARGET_FILE:mpi_watch> ${mpi_run} ${MPIEXEC_NUMPROC_FLAG})
set_tests_properties(mpi.watch PROPERTIES LABELS mpi TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${mpi_env}")

# Checkpoints carried from layout to layout.
add_executable(mpi_layouts mpi/train/layouts.cpp)
target_link_libraries(mpi_layouts PRIVATE trireme_train)
add_test(NAME mpi.layouts COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} 16 $<TARGET_FILE:mpi_layouts>)
set_tests_properties(mpi.layouts PROPERTIES LABELS mpi TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${mpi_env}")

# Faults in the memory of one rank: found and named.
add_executable(mpi_trouble mpi/train/trouble.cpp)
target_link_libraries(mpi_trouble PRIVATE trireme_train)
add_test(NAME mpi.trouble COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} 4 $<TARGET_FILE:mpi_trouble>)
set_tests_properties(mpi.trouble PROPERTIES LABELS mpi TIMEOUT 120 PROCESSORS 2 ENVIRONMENT "${mpi_env}")

# The burn-in at start-up, with devices and links that are wrong or slow.
add_executable(mpi_burn_in mpi/train/burn_in.cpp)
target_include_directories(mpi_burn_in PRIVATE ${PROJECT_SOURCE_DIR}/src)  # the CPU backend has no public header
target_link_libraries(mpi_burn_in PRIVATE trireme_train)
add_test(NAME mpi.burn_in COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} 4 $<TARGET_FILE:mpi_burn_in>)
set_tests_properties(mpi.burn_in PROPERTIES LABELS mpi TIMEOUT 120 PROCESSORS 2 ENVIRONMENT "${mpi_env}")

# Energy over ranks.
add_executable(mpi_energy mpi/train/energy.cpp)
target_link_libraries(mpi_energy PRIVATE trireme_train)
add_test(NAME mpi.energy COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} 4 $<TARGET_FILE:mpi_energy>)
set_tests_properties(mpi.energy PROPERTIES LABELS mpi TIMEOUT 60 PROCESSORS 2 ENVIRONMENT "${mpi_env}")

# Which ranks open the data.
add_executable(mpi_readers mpi/train/readers.cpp)
target_link_libraries(mpi_readers PRIVATE trireme_train)
add_test(NAME mpi.readers COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} 3 $<TARGET_FILE:mpi_readers>)
set_tests_properties(mpi.readers PROPERTIES LABELS mpi TIMEOUT 120 PROCESSORS 2 ENVIRONMENT "${mpi_env}")

# A program to read, not a test: python3 tests/bench/checkpoint.py BUILD_DIR
add_executable(checkpoint_bench mpi/io/bench/bench.cpp)
target_link_libraries(checkpoint_bench PRIVATE trireme_train)
