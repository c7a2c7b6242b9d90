// Guests named `fa:` fail by their number, digit by digit: any, how many starts fail before one works, how many moves
// fail before one works, whether it cannot be stopped. Those with more than four digits start well the first time.
// Scripts use them to try policies.

export class FailingGuests {
  readonly #failures = new Map<string, number>();

  startFails(sid: string): boolean {
    if (sid.length > 7 && !this.#failures.has(`${sid}/1`)) {
      this.#failures.set(`${sid}/1`, 0);
      return false;
    }
    return this.#counts(sid, 1);
  }

  moveFails(sid: string): boolean {
    return this.#counts(sid, 2);
  }

  stopFails(sid: string): boolean {
    return digit(sid, 3) !== 0;
  }

  #counts(sid: string, position: number): boolean {
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
