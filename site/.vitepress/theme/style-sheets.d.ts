/** Vite bundles style sheets. */
declare module '*.css' {}
