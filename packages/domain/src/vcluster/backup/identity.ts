/**
 * whole: all of its keys, so that who had access has it again. fresh: only the key of what its store has encrypted; its
 * authorities are made anew, so that nobody of the one it came from can speak for it, nor the other way round.
 */
export type Identity = "whole" | "fresh";
