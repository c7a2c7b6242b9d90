/** Waits for SIGTERM or SIGINT, then stops in order. A second signal does not wait any longer. */
export function untilSignalled(stop: () => Promise<void>): Promise<number> {
  return new Promise((resolve, reject) => {
    let stopping = false;
    const onSignal = (): void => {
      if (stopping) process.exit(130);
      stopping = true;
      stop().then(() => resolve(0), reject);
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
  });
}
