/* One effect of one run, and what may happen around it in any order: two incarnations of a worker, a person who cancels, a lease that
   ends, a supervisor that reaps, a slow network, a reconciler that looks. `python -m tests.model` checks it (make model).

   A transaction is what stands between `lock_run` and `unlock_run`; the lock is the run's row. Time has no seconds here: a lease, a send
   window, a pause of a worker may end at any moment or never, which covers every timing. The provider ignores idempotency keys.
   Assumed: a commit is durable; a packet lives no longer than `max_in_flight`, so a look that counts begins when none of a stopped
   sender is under way; a lookup tells the truth of that moment (the second empty look guards against one that does not).

   Variants, each with one rule removed: NO_ROW_LOCK (the fence reads, and another transaction may commit before it writes),
   BLIND_RESEND (what may have been sent is sent again), ABSENT_BY_TIMEOUT (lease gone and past send_by, instead of: sender stopped). */

#ifndef ATTEMPTS
#define ATTEMPTS 3                  /* at most 3 */
#endif

mtype:run_state = { scheduled, running, awaiting_evidence, cancelling, closed };
mtype:effect_state = { none, declared, sending, unknown, landed, absent, withheld, conflicted };

/* What the control plane holds. Attempts are numbered from 1. */
mtype:run_state state = scheduled;
mtype:effect_state effect = none;
bool row_locked;
byte holder;                        /* the incarnation that has the lease; 0: nobody */
bool lease_over;                    /* the clock has passed the lease's expiry */
bool cancelled;                     /* the cancel has committed */
byte attempts;
byte sender[4];          /* the incarnation whose attempt it is; 0: there is no such attempt */
bool stopped[4];         /* known: its sender acts no more */
bool past_send_by[4];
bool listed[4];          /* in the receipt of the cancel */
bool ruled_out[4];       /* held to have done nothing, now or ever: its sender says so, or the effect was called absent */

/* What is outside. */
bool under_way[4];       /* its bytes are in the network */
bool answered[4];        /* it was carried out, and the answer is on its way back */
bool dead[3];
byte executed;

/* What is looked for. */
bool sending_after_cancel, bytes_after_cancel, unlisted_bytes_after_cancel, executed_though_ruled_out;

ltl p1 { [] !sending_after_cancel }
ltl p2 { [] (executed <= 1) }
ltl p3 { [] !bytes_after_cancel }
ltl p4 { [] !unlisted_bytes_after_cancel }
ltl p5 { [] !executed_though_ruled_out }
ltl p1_p2_p4_p5 { [] (!sending_after_cancel && executed <= 1 && !unlisted_bytes_after_cancel && !executed_though_ruled_out) }

#ifdef REACHED
/* What must be reached, or the others would hold of nothing: each of these is expected to be false. */
bool resent_after_absent, refused_after_cancel, found_by_a_look;
ltl never_resent { [] !(resent_after_absent && executed == 1) }
ltl never_listed { [] !(cancelled && listed[1]) }
ltl never_refused { [] !refused_after_cancel }
ltl never_found { [] !found_by_a_look }
#define note_that(what, holds) what = what || (holds)
#else
#define note_that(what, holds) skip
#endif

inline lock_run() { atomic { !row_locked -> row_locked = true } }
inline unlock_run() { row_locked = false }

/* The fence locks the row before it reads, except where that is what is removed. */
#ifdef NO_ROW_LOCK
inline lock_for_fence() { skip }
inline unlock_for_fence() { skip }
#else
inline lock_for_fence() { lock_run() }
inline unlock_for_fence() { unlock_run() }
#endif

#ifdef BLIND_RESEND
#define MAY_SEND (effect == none || effect == declared || effect == absent || effect == sending || effect == unknown)
#define IN_DOUBT false
#else
#define MAY_SEND (effect == none || effect == declared || effect == absent)
#define IN_DOUBT (effect == unknown)
#endif

#define MAY_BEGIN(me) (state == running && holder == me && !lease_over && attempts < ATTEMPTS && MAY_SEND)

#ifdef ABSENT_BY_TIMEOUT
#define OVER(a) (sender[a] == 0 || ruled_out[a] || (holder == 0 && past_send_by[a]))
#else
#define OVER(a) (sender[a] == 0 || ruled_out[a] || stopped[a])
#endif

#define NOTHING_UNDER_WAY (!under_way[1] && !under_way[2] && !under_way[3])
#define ALL_OVER (OVER(1) && OVER(2) && OVER(3))
#define ALL_RULED_OUT ((sender[1] == 0 || ruled_out[1]) && (sender[2] == 0 || ruled_out[2]) && (sender[3] == 0 || ruled_out[3]))

/* Nobody has said what came of it. */
inline give_up() {
    if
    :: effect == sending -> effect = unknown
    :: else
    fi
}

/* The lease has ended: the run waits for evidence or for another worker; one that is stopping stays what it is. */
inline settle_down() {
    holder = 0;
    if
    :: state == running -> state = (IN_DOUBT -> awaiting_evidence : scheduled)
    :: else
    fi
}

/* Known again: a run that waited for it goes on. */
inline wake() {
    if
    :: state == awaiting_evidence && effect != unknown -> state = scheduled
    :: else
    fi
}

inline may_be_killed() {
    if
    :: skip
    :: goto killed
    fi
}

proctype Worker(byte me) {
    byte mine;

    atomic { !row_locked && state == scheduled -> state = running; holder = me; lease_over = false; printf("worker %d claims\n", me) }

begin:
    may_be_killed();
    lock_for_fence();
    if
    :: !MAY_BEGIN(me) ->
        note_that(refused_after_cancel, cancelled);
        unlock_for_fence();
        goto done
    :: MAY_BEGIN(me) ->             /* it has read that it may; now it writes */
        d_step {
            note_that(resent_after_absent, effect == absent);
            attempts++;
            mine = attempts;
            sender[mine] = me;
            effect = sending;
            sending_after_cancel = sending_after_cancel || cancelled;
            printf("attempt %d of worker %d is durably sending\n", mine, me)
        }
        unlock_for_fence()
    fi;
    may_be_killed();
    if                              /* the window is read right before the first byte … */
    :: past_send_by[mine] -> goto not_sent
    :: !past_send_by[mine]
    fi;
    may_be_killed();                /* … and between the two the worker may sleep as long as it likes */
    d_step {
        under_way[mine] = true;
        bytes_after_cancel = bytes_after_cancel || cancelled;
        unlisted_bytes_after_cancel = unlisted_bytes_after_cancel || (cancelled && !listed[mine]);
        printf("the bytes of attempt %d leave\n", mine)
    }
    may_be_killed();
    if
    :: answered[mine] -> may_be_killed(); goto landed_well
    :: goto no_answer               /* a time-out, a reset, a 502: its sender is not sure */
    fi;

not_sent:                           /* facts are not fenced: reports are kept, whoever has the lease by now */
    lock_run();
    d_step {
        stopped[mine] = true;
        ruled_out[mine] = true;
        if
        :: (effect == sending || effect == unknown) && ALL_RULED_OUT ->
            if
            :: state == running -> effect = declared
            :: state != running && cancelled -> effect = withheld
            :: state != running && !cancelled -> effect = absent
            fi
        :: else
        fi;
        wake();
        printf("attempt %d was not sent\n", mine)
    }
    unlock_run();
    goto begin;

landed_well:
    lock_run();
    d_step {
        stopped[mine] = true;
        if
        :: effect == sending || effect == unknown -> effect = landed
        :: effect == declared || effect == absent || effect == withheld -> effect = conflicted
        :: else
        fi;
        wake();
        if
        :: state == running && holder == me && !lease_over -> state = closed; holder = 0
        :: else
        fi;
        printf("attempt %d landed\n", mine)
    }
    unlock_run();
    goto done;

no_answer:
    lock_run();
    d_step {
        stopped[mine] = true;
        give_up();
        if
        :: holder == me -> settle_down()    /* it suspends, or it stops */
        :: else
        fi;
        printf("attempt %d: nobody knows\n", mine)
    }
    unlock_run();
    goto done;

killed:
    dead[me] = true;
    printf("worker %d is killed\n", me);
done:
    mine = 0
}

/* Waits for its child and says that it is gone. If it is gone too it never does: it need not be scheduled. */
proctype Supervisor(byte whose) {
    byte a;
    dead[whose];
    lock_run();
    d_step {
        for (a : 1 .. 3) { stopped[a] = stopped[a] || sender[a] == whose };
        a = 0;
        if
        :: sender[attempts] == whose -> give_up()
        :: else
        fi;
        if
        :: holder == whose -> settle_down()
        :: else
        fi;
        printf("worker %d is reaped\n", whose)
    }
    unlock_run()
}

proctype Clock() {
end:
    do
    :: holder != 0 && !lease_over -> lease_over = true
    :: sender[1] != 0 && !past_send_by[1] -> past_send_by[1] = true
    :: sender[2] != 0 && !past_send_by[2] -> past_send_by[2] = true
    :: sender[3] != 0 && !past_send_by[3] -> past_send_by[3] = true
    od
}

proctype Sweep() {
end:
    do
    :: atomic { !row_locked && holder != 0 && lease_over -> give_up(); settle_down(); printf("the lease has expired\n") }
    od
}

proctype Person() {
    byte a;
    lock_run();
    if
    :: state != closed ->
        d_step {
            cancelled = true;
            state = cancelling;
            for (a : 1 .. 3) { listed[a] = sender[a] != 0 && !stopped[a] };
            a = 0;
            if
            :: effect == declared -> effect = withheld
            :: else
            fi;
            printf("the cancel is committed\n")
        }
    :: state == closed
    fi;
    unlock_run()
}

inline arrive(a) {
    d_step {
        under_way[a] = false;
        executed++;
        answered[a] = true;
        executed_though_ruled_out = executed_though_ruled_out || ruled_out[a];
        printf("the provider carries out attempt %d\n", a)
    }
}

proctype Network() {
end:
    do
    :: under_way[1] -> arrive(1)
    :: under_way[2] -> arrive(2)
    :: under_way[3] -> arrive(3)
    :: under_way[1] -> under_way[1] = false
    :: under_way[2] -> under_way[2] = false
    :: under_way[3] -> under_way[3] = false
    od
}

/* A look: it begins, the provider is asked outside any transaction, and what it says is judged by rows read at its end. */
proctype Reconciler() {
    bool counts, there;
    byte version;
end:
    do
    :: atomic { effect == unknown -> counts = ALL_OVER && NOTHING_UNDER_WAY; version = attempts }
        there = executed > 0;
        lock_run();
        d_step {
            if
            :: there && effect == unknown -> effect = landed; note_that(found_by_a_look, true); printf("a look finds it\n")
            :: !there && effect == unknown && counts && version == attempts ->
                effect = absent;
                if
                :: sender[1] != 0 -> ruled_out[1] = true
                :: else
                fi;
                if
                :: sender[2] != 0 -> ruled_out[2] = true
                :: else
                fi;
                if
                :: sender[3] != 0 -> ruled_out[3] = true
                :: else
                fi;
                printf("looks prove that it is absent\n")
            :: else
            fi;
            counts = false; there = false; version = 0;
            wake()
        }
        unlock_run()
    od
}

init {
    atomic {
        run Worker(1); run Worker(2);
        run Supervisor(1); run Supervisor(2);
        run Person(); run Clock(); run Sweep(); run Network(); run Reconciler()
    }
}
