// Guests named `fa:` fail by their number, digit by digit: any, how many starts fail before one works, how many moves
// fail before one works, whether it cannot be stopped, any, and the number of the only node on which starts and moves
// fail (0 or none: on all). Scripts use them to try policies.

export class FailingGuests {
  readonly #failures = new Map<string, number>();

  startFails(sid: string, node: string): boolean {
    return this.#counts(sid, node, 1);
  }

  moveFails(sid: string, node: string): boolean {
    return this.#counts(sid, node, 2);
  }

  stopFails(sid: string): boolean {
    return digit(sid, 3) !== 0;
  }

  #counts(sid: string, node: string, position: number): boolean {
    const only = digit(sid, 5);
    if (only !== 0 && node !== `node${only}`) return false;
    const key = `${sid}/${position}`;
    const failed = this.#failures.get(key) ?? 0;
    const fails = failed < digit(sid, position);
    this.#failures.set(key, fails ? failed + 1 : 0);
    return fails;
  }
}

function digit(sid: string, position: number): number {
  return sid.startsWith("fa:") ? Number(sid[3 + position] ?? 0) : 0;
}
