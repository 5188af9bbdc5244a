import type { Theme } from 'vitepress';
import DefaultTheme from 'vitepress/theme-without-fonts';
import { Layout } from './layout.ts';
import { MermaidDiagram } from './mermaid-diagram.ts';
import './style.css';

export default {
  extends: DefaultTheme,
  Layout,
  enhanceApp: ({ app }) => {
    app.component('MermaidDiagram', MermaidDiagram);
  },
} satisfies Theme;
