#include "schedulers/stage/effects.hpp"

template class std::vector<troupe::sched::Effect>;
