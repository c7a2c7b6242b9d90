// What operations on clusters say, in their logs and when they fail, names the cluster as its tenant does: the key, by which its
// node knows it, is in paths alone.
import { withName } from "@gpve/domain/vcluster/cluster-key.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";

export type Register = OperationEngine["register"];

interface Named {
  readonly name: string;
  readonly called?: string;
}

interface KnownClusters {
  get(name: string): Pick<Named, "called"> | undefined;
}

/** Registers operations whose arguments name a cluster. */
export function plainRegister(engine: Pick<OperationEngine, "register">, host: KnownClusters): Register {
  return (definition) => engine.register(plainly(definition, host));
}

export function plainly<A, S extends object>(
  definition: OperationDefinition<A, S>,
  host: KnownClusters,
): OperationDefinition<A, S> {
  const { steps = [] } = definition;
  return {
    ...definition,
    steps: steps.map((step) => ({
      ...step,
      run: (ctx) => spoken(ctx, host, (plain) => step.run(plain)),
      ...(step.undo === undefined
        ? {}
        : { undo: (ctx: StepContext<A, S>) => spoken(ctx, host, (plain) => step.undo?.(plain)) }),
    })),
  };
}

async function spoken<A, S extends object>(
  ctx: StepContext<A, S>,
  host: KnownClusters,
  run: (ctx: StepContext<A, S>) => Promise<void> | void,
): Promise<void> {
  const { name, called: asked } = ctx.args as Named;
  // One that is being deleted is gone before all has been said.
  const called = asked ?? host.get(name)?.called;
  if (called === undefined) return run(ctx);
  const plain = (text: string): string => withName(text, { key: name, name: called });
  try {
    await run({
      ...ctx,
      log: (line) => ctx.log(plain(line)),
      warn: (line) => ctx.warn(plain(line)),
      progress: (fraction, text) => ctx.progress(fraction, text === undefined ? undefined : plain(text)),
    });
  } catch (err) {
    if (err instanceof Error) err.message = plain(err.message);
    throw err;
  }
}
