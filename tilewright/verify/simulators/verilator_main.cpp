// Runs a Verilated model under cocotb. Written for every Verilator from 5.006: the same regions
// of a time step as cocotb's own main file (BSD-3-Clause), which needs newer ones.
//
// Built with -DINERTIAL_PUTS=1 where the VPI of this Verilator holds back the writes of a bench
// until it is told to apply them; without, cocotb itself keeps them for the ReadWrite region.

#include <memory>

#include "Vtop.h"
#include "verilated.h"
#include "verilated_vpi.h"

#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

extern "C" void vlog_startup_routines_bootstrap();  // in cocotb's library: registers its callbacks

// Value callbacks may write signals, which wakes further ones.
static bool call_value_callbacks() {
    bool any = false;
    while (VerilatedVpi::callValueCbs()) any = true;
    return any;
}

// Lets the bench react to what changed; true when the model must be evaluated again.
static bool react(bool called) {
#if INERTIAL_PUTS
    (void)called;
    VerilatedVpi::doInertialPuts();
    call_value_callbacks();
    return VerilatedVpi::evalNeeded();
#else
    return call_value_callbacks() || called;
#endif
}

static void settle(Vtop& top) {
    do {
        do {
            top.eval_step();
#if INERTIAL_PUTS
            VerilatedVpi::clearEvalNeeded();
#endif
        } while (react(false));
    } while (react(VerilatedVpi::callCbs(cbReadWriteSynch)));
    top.eval_end_step();
}

int main(int argc, char** argv) {
    VerilatedContext& context = *Verilated::threadContextp();
    context.commandArgs(argc, argv);
    context.fatalOnVpiError(false);  // cocotb asks for objects that need not exist
#if VM_TRACE
    context.traceEverOn(true);
#endif
    const auto top = std::make_unique<Vtop>("");
#if VM_TRACE
    VerilatedVcdC waves;
    top->trace(&waves, 99);  // levels of hierarchy: all
    waves.open("waves.vcd");
#endif

    vlog_startup_routines_bootstrap();
    VerilatedVpi::callCbs(cbStartOfSimulation);
    call_value_callbacks();
    while (!context.gotFinish()) {
        settle(*top);
        VerilatedVpi::callCbs(cbReadOnlySynch);
#if VM_TRACE
        waves.dump(context.time());
#endif
        // Nothing happens between two deadlines of the bench: there are no delays in the model.
        const auto next = VerilatedVpi::cbNextDeadline();
        if (next == ~0ULL) break;
        context.time(next);
        VerilatedVpi::callCbs(cbNextSimTime);
        call_value_callbacks();
        VerilatedVpi::callTimedCbs();
        call_value_callbacks();
    }
    VerilatedVpi::callCbs(cbEndOfSimulation);
    top->final();
#if VM_TRACE
    waves.close();
#endif
    return 0;
}
