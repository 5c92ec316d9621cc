// The whole public C++ interface for programs that build and run graphs.
#pragma once

#include "simpler/buffer.h"
#include "simpler/call_config.h"
#include "simpler/callable.h"
#include "simpler/chip_callable.h"
#include "simpler/compile.h"
#include "simpler/orchestrator.h"
#include "simpler/run.h"
#include "simpler/status.h"
#include "simpler/task_args.h"
#include "simpler/worker.h"
