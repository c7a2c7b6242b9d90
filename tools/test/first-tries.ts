// What failed at its first try and not at its second. A flaw that comes and goes is still a flaw: each is named at the end of
// the run with what it said, and a strict run fails for it, unless the cause is known, is not ours, and somebody looks at it
// again by a day.

export interface KnownCause {
  readonly reason: string;
  /** In what the test or the guest said. */
  readonly says: RegExp;
  /** The last day on which it excuses anything, "2027-01-31". */
  readonly until: string;
}

export const knownCauses: readonly KnownCause[] = [
  {
    reason: "a guest's kernel lost its timer: emulation on a busy host did not deliver interrupts in time",
    says: /timer doesn't work|soft lockup|rcu\w*: INFO: .*(stall|starved)|hrtimer: interrupt took/i,
    until: "2027-02-28",
  },
];

export interface FailedFile {
  readonly file: string;
  /** Everything that its failed tests said. */
  readonly failures: readonly string[];
}

export interface FirstTries {
  /** Failed only because of a known cause. */
  readonly excused: readonly { readonly file: string; readonly reason: string }[];
  readonly unexplained: readonly FailedFile[];
}

/** `today` as "2026-11-16". */
export function judgeFirstTries(
  failed: readonly FailedFile[],
  today: string,
  causes: readonly KnownCause[] = knownCauses,
): FirstTries {
  const valid = causes.filter(({ until }) => today <= until);
  const excused: { file: string; reason: string }[] = [];
  const unexplained: FailedFile[] = [];
  for (const each of failed) {
    const reasons = each.failures.map((text) => valid.find(({ says }) => says.test(text))?.reason);
    const [reason] = reasons;
    if (reason === undefined || reasons.includes(undefined)) unexplained.push(each);
    else excused.push({ file: each.file, reason });
  }
  return { excused, unexplained };
}
